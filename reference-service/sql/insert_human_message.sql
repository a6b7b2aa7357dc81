-- Stores nothing when the conversation is not the sender's.
INSERT INTO messages (id, conversation_id, content, sender_id, type)
SELECT $1, c.id, $2, c.user_id, 'HUMAN'
FROM conversations c
WHERE c.id = $3 AND c.user_id = $4
