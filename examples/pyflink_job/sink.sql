CREATE TABLE enriched (
    id BIGINT PRIMARY KEY,
    k BIGINT NOT NULL,
    name VARCHAR(200),
    city VARCHAR(200),
    tier VARCHAR(200)
);
