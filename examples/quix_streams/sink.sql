CREATE TABLE enriched (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY,
    id BIGINT NOT NULL,
    k BIGINT NOT NULL,
    name VARCHAR(200),
    city VARCHAR(200),
    tier VARCHAR(200)
);
CREATE TABLE progress (topic VARCHAR(200), part INT, position BIGINT NOT NULL, PRIMARY KEY (topic, part));
