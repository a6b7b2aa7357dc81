SELECT repo_name, branch_name FROM projects WHERE id = $1 AND user_id = $2
