-- The ledger: what was said, to whom, what was answered, and what came of it. Times are UTC nanoseconds; `_ns` of the fleet's clock,
-- `_wall_ns` of the machine's. One recommendation per node can be open at a time, and the database itself enforces it.

create table if not exists recommendations (
    recommendation_id text primary key,
    node text not null,
    origin text not null,           -- score, criterion or failure
    status text not null,           -- open or resolved
    opened_ns integer not null,
    drain_ns integer,               -- when it first asked for a drain
    strongest text not null,        -- severest action it ever asked for
    resolved_ns integer,
    resolution text,
    memory blob not null,           -- lifecycle.OpenRecommendation as JSON
    body blob not null              -- newest revision as sent
);
create unique index if not exists one_open_per_node on recommendations (node) where status = 'open';

create table if not exists revisions (
    recommendation_id text not null,
    revision integer not null,
    change text not null,           -- opened, updated or resolved
    why text not null,
    issued_ns integer not null,
    action text not null,
    budget text not null,
    p_fail real not null,
    body blob not null,
    primary key (recommendation_id, revision)
);

create table if not exists audit (
    seq integer primary key autoincrement,
    recommendation_id text not null,
    revision integer not null,
    at_ns integer not null,
    node text not null,
    chosen text not null,
    options text not null,          -- expected cost in node-hours per feasible action, JSON
    propensity real not null,       -- probability with which this policy chose it; 1 for a deterministic choice
    budget text not null,           -- verdict with scope, used and limit, JSON
    facts text not null             -- probability, causes, job and cost model, JSON
);

create table if not exists grants (
    recommendation_id text primary key,
    node text not null,
    at_ns integer not null
);
create index if not exists grants_by_time on grants (at_ns);

create table if not exists causes (
    node text not null,
    code text not null,
    component text not null,
    last_seen_ns integer not null,
    body blob not null,             -- causes.Cause as JSON
    primary key (node, code, component)
);

create table if not exists acks (
    seq integer primary key autoincrement,
    recommendation_id text not null,
    revision integer not null,
    state text not null,
    actor_kind text not null,
    reason_code text,
    consumer text not null,
    at_ns integer not null,
    received_ns integer not null,
    body blob not null
);
create index if not exists acks_by_recommendation on acks (recommendation_id);

create table if not exists outcomes (
    seq integer primary key autoincrement,
    outcome_id text not null unique,
    node text not null,
    kind text not null,
    at_ns integer not null,
    received_ns integer not null,
    consumer text not null,
    body blob not null
);

create table if not exists calls (
    consumer text not null,
    webhook_id text not null,
    received_wall_ns integer not null,
    primary key (consumer, webhook_id)
);

create table if not exists marks (
    name text primary key,
    value integer not null
);

create table if not exists outbox (
    seq integer primary key autoincrement,
    id text not null,               -- of the event, the same over all attempts
    endpoint text not null,
    key text not null,              -- order is kept within a key
    body blob not null,             -- exact bytes that are signed and sent
    created_wall_ns integer not null,
    expires_ns integer not null,
    attempts integer not null default 0,
    next_wall_ns integer not null,
    state text not null default 'pending',  -- pending, done or dead
    last text,                      -- answer or error of the newest attempt
    unique (id, endpoint)
);
create index if not exists outbox_pending on outbox (endpoint, key, seq) where state = 'pending';

create table if not exists disabled_endpoints (
    endpoint text primary key,
    because text not null,
    at_wall_ns integer not null
);
