INSERT INTO messages (id, conversation_id, content, type, tool_calls)
VALUES ($1, $2, $3, 'AI_GENERATED', '[]')
