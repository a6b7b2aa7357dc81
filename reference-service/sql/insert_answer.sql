-- An agent's message, whole or as far as it came. Stores nothing when the conversation is not the
-- user's. One that is stored already and goes further stays.
INSERT INTO messages AS stored (id, content, type, citations, tool_calls, thinking, conversation_id)
SELECT $1, $2, 'AI_GENERATED', $3, $4::text::json, $5, c.id
FROM conversations c
WHERE c.id = $6 AND c.user_id = $7
ON CONFLICT (id) DO UPDATE
SET content = excluded.content,
    citations = excluded.citations,
    tool_calls = excluded.tool_calls,
    thinking = excluded.thinking
WHERE stored.conversation_id = excluded.conversation_id
  AND length(stored.content) <= length(excluded.content)
