-- Each repository once, by its first project.
SELECT min(id) AS "id!", repo_name
FROM projects
WHERE user_id = $1
GROUP BY repo_name
ORDER BY repo_name
