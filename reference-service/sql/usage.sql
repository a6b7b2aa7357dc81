-- The usage check's one aggregate; a conversation with n agents counts n times.
SELECT u.plan, used.agent_id AS "agent_id?", used.messages AS "messages?"
FROM users u
LEFT JOIN LATERAL (
    SELECT unnest(c.agent_ids) AS agent_id, count(m.id) AS messages
    FROM conversations c
    JOIN messages m ON m.conversation_id = c.id
    WHERE c.user_id = u.uid
      AND m.type = 'HUMAN'
      AND m.created_at >= to_timestamp($1)
      AND m.created_at <= to_timestamp($2)
    GROUP BY 1
) used ON TRUE
WHERE u.uid = $3
