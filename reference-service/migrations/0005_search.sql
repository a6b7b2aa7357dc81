-- What step 5's search needs, and the keys of its v2 route. The numbers between are other steps'.

-- Nodes of a project's code, as the parser found them.
CREATE TABLE search_indices (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id text NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    node_id    text NOT NULL,
    name       text NOT NULL,
    file_path  text NOT NULL,
    content    text NOT NULL,
    CONSTRAINT each_node_once UNIQUE (project_id, node_id)
);

-- Without an index on what keys are looked up by, as in the service being migrated.
CREATE TABLE user_preferences (
    user_id     text PRIMARY KEY REFERENCES users (uid) ON DELETE CASCADE,
    preferences json NOT NULL
);
