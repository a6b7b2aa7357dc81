SELECT id, repo_name FROM projects WHERE id = ANY($1)
