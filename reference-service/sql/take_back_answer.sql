-- The last question of a conversation, once more: what was answered to it is archived.
WITH asked AS (
    SELECT m.content, m.conversation_id, m.created_at
    FROM messages m
    JOIN conversations c ON c.id = m.conversation_id
    WHERE c.id = $1 AND c.user_id = $2 AND m.type = 'HUMAN' AND m.status = 'ACTIVE'
    ORDER BY m.created_at DESC, m.id DESC
    LIMIT 1
), archived AS (
    UPDATE messages m
    SET status = 'ARCHIVED'
    FROM asked
    WHERE m.conversation_id = asked.conversation_id
      AND m.type = 'AI_GENERATED'
      AND m.created_at > asked.created_at
)
SELECT content FROM asked
