-- Besides its content, a guarded row stores the largest fence that claimed it and its number of writes.
CREATE TABLE reports (
    item    text   PRIMARY KEY,
    body    text,
    fence   bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0
);
