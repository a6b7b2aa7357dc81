SELECT id FROM projects WHERE id = $1 AND user_id = $2
