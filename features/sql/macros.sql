-- Words that the queries share; every connection learns them once.

-- Growth between two readings of a counter: after a reset the new value; unknown for a first reading (a baseline) and where the counter
-- alone has stepped back.
create or replace temp macro growth(reading, reading_before, is_reset_between) as
    case when is_reset_between then reading when reading >= reading_before then reading - reading_before end;

-- 1 where a counter has stepped back without a reset, else 0.
create or replace temp macro stepped_back(reading, reading_before, is_reset_between) as
    if(reading < reading_before and not is_reset_between, 1, 0);

-- Order in which sources are believed.
create or replace temp macro source_rank(source) as
    case source when 'nvml' then 0 when 'exporter' then 1 else 2 end;

-- Hours from one time to another.
create or replace temp macro hours_between(earlier, later) as (epoch_us(later) - epoch_us(earlier)) / 3.6e9;

-- Age in seconds, rounded up to 5 minutes: finer than that it tells the phase of the polls, not the state of a machine.
create or replace temp macro age_s(earlier, later) as ceil(hours_between(earlier, later) * 12) * 300;

-- A value that rounding or a fast poller may push below zero; unlike greatest(0, x) it keeps what is unknown unknown.
create or replace temp macro not_below_zero(x) as if(x < 0, 0, x);
