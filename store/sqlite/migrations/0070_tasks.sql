-- Tasks: requests of a tenant whose answers are few distinct labels, and that a student may answer (router.tasks).
CREATE TABLE tasks (
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    state TEXT NOT NULL,
    -- Fingerprint of the instructions (router.digest.scope); empty where something else tells which requests belong to it.
    scope TEXT NOT NULL,
    -- JSON array; empty: the labels that the teacher uses.
    labels TEXT NOT NULL,
    at_s REAL NOT NULL,
    -- Who said so last; empty for nobody.
    by TEXT NOT NULL,
    -- JSON object: what a proposal rests on. No content.
    grounds TEXT NOT NULL,
    PRIMARY KEY (tenant, model, name)
) WITHOUT ROWID;
INSERT INTO generations (name, value) VALUES ('tasks', 0);

-- A log, never updated: a person's label of a request is a later row of the same request.
CREATE TABLE task_answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    -- Model and name of the task, with a slash between.
    slot TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at_s REAL NOT NULL,
    contributor TEXT NOT NULL,
    end_user TEXT NOT NULL,
    input TEXT NOT NULL,
    vector BLOB,
    embedding_version TEXT NOT NULL,
    answer TEXT NOT NULL,
    label TEXT,
    unread TEXT NOT NULL,
    soft TEXT,
    weight REAL NOT NULL,
    student_label TEXT,
    confidence REAL,
    version INTEGER,
    checked INTEGER NOT NULL,
    answered_by TEXT NOT NULL
);
CREATE INDEX task_answers_by_slot ON task_answers (tenant, slot, id);
CREATE INDEX task_answers_by_request ON task_answers (tenant, request_id);
CREATE INDEX task_answers_by_age ON task_answers (at_s);
CREATE INDEX task_answers_by_contributor ON task_answers (tenant, contributor) WHERE contributor <> '';
