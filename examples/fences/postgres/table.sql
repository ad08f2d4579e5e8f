-- Beside its content, a guarded row has the largest fence that took it and the number of its writes.
CREATE TABLE reports (
    item    text   PRIMARY KEY,
    body    text,
    fence   bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0
);
