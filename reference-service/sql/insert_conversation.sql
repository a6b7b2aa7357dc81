INSERT INTO conversations (id, user_id, title, status, project_ids, agent_ids)
VALUES ($1, $2, $3, $4, $5, $6)
