-- Whether a user may see a conversation: their own, a public one, one shared with their address.
SELECT (c.user_id = u.uid OR c.visibility = 'public' OR u.email = ANY (c.shared_with_emails)) AS "may_read!"
FROM users u
CROSS JOIN conversations c
WHERE u.uid = $1 AND c.id = $2
