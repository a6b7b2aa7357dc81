-- The usage check's one aggregate; a conversation with n agents counts n times. Messages are counted
-- below each conversation: a join of the two tables is planned by the share of all messages that
-- lies in the window, which isn't known beforehand, and reads every user's messages.
SELECT u.plan, used.agent_id AS "agent_id?", used.messages AS "messages?"
FROM users u
LEFT JOIN LATERAL (
    SELECT unnest(c.agent_ids) AS agent_id, sum(said.messages)::bigint AS messages
    FROM conversations c
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages
        FROM messages m
        WHERE m.conversation_id = c.id
          AND m.type = 'HUMAN'
          AND m.created_at >= to_timestamp($1)
          AND m.created_at <= to_timestamp($2)
    ) said
    WHERE c.user_id = u.uid
      AND said.messages > 0
    GROUP BY 1
) used ON TRUE
WHERE u.uid = $3
