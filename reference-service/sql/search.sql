SELECT node_id, name, file_path, content
FROM search_indices
WHERE project_id = $1
  AND (name ILIKE ANY ($2) OR file_path ILIKE ANY ($3) OR content ILIKE ANY ($4))
ORDER BY id
