-- The FastAPI example's; the Rust service has insert_answer.sql for whole answers and parts.
-- Stores nothing when the conversation is not the user's.
INSERT INTO messages (id, conversation_id, content, type, tool_calls)
SELECT $1, c.id, $2, 'AI_GENERATED', '[]'
FROM conversations c
WHERE c.id = $3 AND c.user_id = $4
