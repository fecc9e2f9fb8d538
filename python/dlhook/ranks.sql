-- Questions across ranks: the statements of `python -m dlhook.ranks`, in the SQL that DuckDB and Spark share.
-- A statement begins with "-- view NAME", "-- table NAME" (a view that is kept: several read it) or "-- result NAME: TITLE". It may
-- use those before it, and the raw_* tables with `export`, the folder that a row is from. Times are absolute, since the first export's
-- time zero; `win` is a step's number / 50; `attempt` counts restarts. Columns of results:
-- rank: Its number; of a host with several late ranks the first. | ranks: Of the machine; those that are late together. | host: The
-- machine. | attempt: Of a job that was restarted: 0 before. | operations: Collective ones, that ranks could be compared by. | ahead_ns: Of
-- the machines' median clock; the median over windows of 50 steps. | drift_ns: From the least of these windows to the most. | error_ns: How
-- far the ends of one operation lie apart: half of the middle two thirds. | since_step: In windows of 50 steps; NULL: at times, over all
-- steps. | until_step: The last window's end. | came_last_percent: Of the operations. | lost_ns: The others' mean wait for it, in a mean
-- step of these. | lost_percent: Of the step. | reason: What takes it longer than the others, by at least a third of that; NULL: not known.
-- | what: compute: self time of calls and operations on the host; GPU work: durations. Of a difference: algorithm, library, batch, program.
-- | compute_ns: In a mean step, without waiting for a GPU and without communication. | usual_ns: The ranks' median. | slower_percent: Than
-- the median. | z: Distance from the median in robust deviations (of the median absolute deviation). | most_in: Layer, direction and
-- operation that take most of it. | most_ns: How much longer these take, in a mean step. | no_processor_ns: In a mean step, its thread
-- waited for a processor; of slow ranks, more than the median. NULL: not known in most steps. | kind: Of collective operation; of a
-- difference, of the steps. | of_ranks: That have one of these values; of two it is not known which is unusual. | members: Ranks of the
-- communicator; NULL: not known. | bytes: Of one operation, as in the table collectives of a report; NULL: not known. | apart_ns: From the
-- first rank's arrival to the last one's, the median; NULL: arrivals can't be compared. | most_apart_ns: The most. | transfer_ns: From the
-- last arrival to the end, the median; where arrivals can't be compared, of the fastest tenth of the operations. | algorithm_gbs: All
-- ranks' bytes / transfer_ns. | bus_gbs: What the slowest link moves: algorithm_gbs by the factor of nccl-tests. | usual_gbs: The ranks'
-- median. | usual_percent: What part of that it is. | steps: Steady ones. | step_ns: A mean one of these. | exposed_ns: Of it,
-- communication of GPUs without another kernel beside it; NULL: not measured. | exposed_percent: Of the step. | value: What it has; NULL:
-- nothing of the kind. | usual: What nearly all others have. | problem: What is missing or mixed. | says: What it is, and what is done
-- about it. | times_as_long: A call or piece of GPU work, compared with that of the others. | library: That does it. | communicator: Its
-- number in the rank's process. | layer: Of the network. | direction: forward, backward … | op: Operation; of a difference of libraries,
-- library or tap.

-- view own
-- Processes that are ranks, without a rank's helpers: those without steps beside one with steps.
WITH counted AS (SELECT export, process_id, count(*) AS steps FROM raw_steps GROUP BY ALL),
versions AS (SELECT export, max(schema_version) AS schema_version FROM tables GROUP BY ALL),
told AS (SELECT p.*, coalesce(p.job, '') AS of_job, v.schema_version, coalesce(c.steps, 0) AS steps, CASE
         WHEN time_zero_unix_ns IS NULL THEN p.export ELSE coalesce(boot_id, host, p.export) END AS machine,
         start_ns + coalesce(time_zero_unix_ns, 0) AS begin_ns, end_ns + coalesce(time_zero_unix_ns, 0) AS finish_ns FROM raw_processes p
         LEFT JOIN counted c USING (export, process_id) LEFT JOIN versions v USING (export) WHERE rank IS NOT NULL),
most AS (SELECT *, max(steps) OVER (PARTITION BY export, of_job, rank, restart) AS most_steps,
                row_number() OVER (PARTITION BY machine, pid, begin_ns ORDER BY export) AS copy FROM told)
SELECT * FROM most WHERE steps > 0 OR most_steps = 0

-- table processes
-- role: rank; or why it is left out: copy (exported twice), other job, twice (a rank that another process is at the same time).
WITH jobs AS (SELECT of_job, count(DISTINCT rank) AS ranks, min(begin_ns) AS begin_ns FROM own GROUP BY ALL),
largest AS (SELECT of_job, of_job AS kept FROM jobs ORDER BY ranks DESC, begin_ns LIMIT 1),
before AS (SELECT o.*, l.kept, max(finish_ns) OVER (PARTITION BY o.of_job, rank, restart, copy ORDER BY begin_ns, export
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns FROM own o LEFT JOIN largest l USING (of_job)),
roles AS (SELECT *, CASE WHEN copy > 1 THEN 'copy' WHEN kept IS NULL THEN 'other job'
          WHEN begin_ns < before_ns THEN 'twice' ELSE 'rank' END AS role FROM before)
-- A job is known by its address: if a rank has a restart's number twice, these are runs, which are counted by time.
SELECT *, CASE WHEN restart IS NOT NULL AND max(same) OVER (PARTITION BY role, of_job) = 1 THEN restart
          ELSE row_number() OVER (PARTITION BY role, of_job, rank ORDER BY begin_ns) - 1 END AS attempt
FROM (SELECT *, count(*) OVER (PARTITION BY role, of_job, rank, restart) AS same FROM roles) counted

-- table members
SELECT export, process_id, rank, attempt, host, machine, world_size, coalesce(time_zero_unix_ns - min(time_zero_unix_ns) OVER (), 0) AS zero_ns
FROM processes WHERE role = 'rank'

-- view steps
SELECT m.*, s.step_id, s.start_ns AS began_ns, s.number AS step, CAST(floor(s.number / 50) AS BIGINT) AS win, s.end_ns - s.start_ns AS step_ns, s.no_processor_ns,
       s.exposed_communication_ns, s.batch
FROM raw_steps s JOIN members m USING (export, process_id) WHERE s.steady = 1

-- table step_times
SELECT attempt, win, median(step_ns) AS step_ns FROM steps GROUP BY ALL

-- view calls
-- What can be compared between ranks. meeting: the communicator, or where none is told library, kind and bytes, if these are equal.
SELECT m.attempt, m.rank, m.machine, m.world_size, c.sequence, c.step, coalesce(c.communicator, concat(c.library, ' ', c.kind)) AS line,
       coalesce(c.communicator, concat(c.library, ' ', c.kind, ' ', CASE WHEN c.kind IN ('all to all', 'scatter', 'unknown') THEN ''
                                                                    ELSE coalesce(CAST(c.bytes AS STRING), '') END)) AS meeting,
       coalesce(CAST(floor(c.step / 50) AS BIGINT), -1) AS win, c.library, c.kind, c.bytes, c.members,
       CASE WHEN c.kind IN ('all reduce', 'all gather', 'reduce scatter', 'all to all', 'barrier') THEN 1 ELSE 0 END AS synchronizes,
       c.start_ns + m.zero_ns AS start_ns, c.end_ns + m.zero_ns AS end_ns
FROM raw_collectives c JOIN members m USING (export, process_id)
WHERE c.sequence IS NOT NULL AND (c.communicator IS NOT NULL OR c.communicator_number IS NULL)

-- table groups
WITH mine AS (SELECT attempt, meeting, rank, count(*) AS operations, max(synchronizes) AS synchronizes FROM calls GROUP BY ALL)
SELECT attempt, meeting, count(*) AS group_ranks FROM mine GROUP BY ALL
HAVING count(*) > 1 AND (max(synchronizes) = 1 OR min(operations) = max(operations))

-- table offsets
-- How far a machine's clock is ahead: ranks leave an operation that synchronizes at the same time.
WITH ends AS (SELECT attempt, meeting, sequence, avg(end_ns) AS left_ns FROM calls JOIN groups USING (attempt, meeting)
              WHERE synchronizes = 1 AND (SELECT count(DISTINCT machine) FROM members) > 1 GROUP BY attempt, meeting, sequence
              HAVING count(end_ns) = max(group_ranks)),
apart AS (SELECT attempt, machine, win, count(*) AS operations, median(end_ns - left_ns) AS ahead_ns,
          percentile_disc(0.84) WITHIN GROUP (ORDER BY end_ns - left_ns)
          - percentile_disc(0.16) WITHIN GROUP (ORDER BY end_ns - left_ns) AS apart_ns
          FROM calls JOIN ends USING (attempt, meeting, sequence) GROUP BY ALL),
middle AS (SELECT attempt, win, percentile_disc(0.5) WITHIN GROUP (ORDER BY ahead_ns) AS middle_ns FROM apart GROUP BY ALL)
SELECT attempt, machine, win, operations, ahead_ns - middle_ns AS ahead_ns, apart_ns / 2 AS error_ns
FROM apart JOIN middle USING (attempt, win)

-- result clocks: The machines' clocks, aligned by operations that synchronize
WITH hosts AS (SELECT machine, min(host) AS host, count(DISTINCT rank) AS ranks FROM members GROUP BY ALL),
clocks AS (SELECT machine, sum(operations) AS operations, median(ahead_ns) AS ahead_ns,
           max(ahead_ns) - min(ahead_ns) AS drift_ns, median(error_ns) AS error_ns FROM offsets GROUP BY ALL)
SELECT host, ranks, operations, ahead_ns, drift_ns, error_ns FROM clocks JOIN hosts USING (machine) ORDER BY abs(ahead_ns) DESC, host

-- table meetings
-- Operations that all ranks of their group came to. waited_ns: the others' mean wait for the last one. crossed: some left before.
WITH usual AS (SELECT attempt, machine, median(ahead_ns) AS usual_ns FROM offsets GROUP BY ALL),
aligned AS (SELECT c.*, start_ns - coalesce(ahead_ns, usual_ns, 0) AS came_ns, end_ns - coalesce(ahead_ns, usual_ns, 0) AS left_ns
            FROM calls c LEFT JOIN offsets USING (attempt, machine, win) LEFT JOIN usual USING (attempt, machine)),
met AS (SELECT attempt, meeting, sequence, max(step) AS step, max(line) AS line, max(library) AS library, max(kind) AS kind, max(bytes) AS bytes,
        coalesce(max(members), CASE WHEN count(*) = max(world_size) AND max(synchronizes) = 1 THEN count(*) END) AS members, count(*) AS ranks, min(came_ns) AS first_ns, max(came_ns) AS last_ns, max_by(rank, came_ns) AS rank,
        min(left_ns) AS left_ns, max(left_ns) AS end_ns, (count(*) * max(came_ns) - sum(came_ns)) / nullif(count(*) - 1e0, 0) AS waited_ns,
        max(synchronizes) AS synchronizes FROM aligned GROUP BY attempt, meeting, sequence),
error AS (SELECT coalesce(max(error_ns), 0) AS clock_ns FROM offsets),
whole AS (SELECT *, CASE WHEN synchronizes = 1 AND left_ns + clock_ns / 2 < last_ns THEN 1 ELSE 0 END AS crossed
          FROM met JOIN groups USING (attempt, meeting) CROSS JOIN error WHERE ranks = group_ranks),
parts AS (SELECT *, avg(crossed) OVER (PARTITION BY attempt, meeting) AS crossed_part FROM whole)
-- Where operations that synchronize show several groups, others may be of several, too.
SELECT *, CASE WHEN crossed = 0 AND CASE WHEN synchronizes = 1 THEN crossed_part ELSE max(crossed_part) OVER (PARTITION BY attempt,
          library) END <= 0.05 THEN 1 ELSE 0 END AS counts FROM parts

-- table waits
-- How long the others waited for a rank in a step that is steady: operations at the same time once, at most the step.
WITH good AS (SELECT attempt, step, win, median(step_ns) AS step_ns FROM steps GROUP BY ALL),
one AS (SELECT attempt, step, rank, last_ns, last_ns - waited_ns AS from_ns, max(last_ns) OVER (PARTITION BY attempt, step, rank
        ORDER BY last_ns - waited_ns, last_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns FROM meetings
        WHERE counts = 1)
SELECT attempt, step, win, rank, count(*) AS came_last,
       least(sum(greatest(last_ns - greatest(from_ns, coalesce(covered_ns, from_ns)), 0)), max(step_ns)) AS ns
FROM one JOIN good USING (attempt, step) GROUP BY attempt, step, win, rank

-- table late
-- Windows in which the others wait for a unit more than chance explains: at least 1 % of a step more than for others, by Student's t over
-- the steps' shares of waiting; in islands, of which single windows may be missing. Or all windows together (win -1), where none says so.
-- Half a second is lost at least: shared processors are unfair for less. A unit: a rank, or a machine of which no rank has most waits.
WITH sums AS (SELECT attempt, machine, rank, sum(coalesce(ns, 0)) AS ns FROM members LEFT JOIN waits USING (attempt, rank) GROUP BY ALL),
sizes AS (SELECT attempt, machine, count(*) AS size, min(rank) AS least, max(ns) > 0.6 * sum(ns) AS has_one,
                 count(*) OVER (PARTITION BY attempt) = 1 AS is_alone FROM sums GROUP BY attempt, machine),
units AS (SELECT attempt, rank, CASE WHEN is_alone OR has_one THEN rank ELSE least END AS unit,
                 CASE WHEN is_alone OR has_one THEN 1 ELSE size END AS ranks, 1e0 / count(*) OVER (PARTITION BY attempt) AS part
          FROM members JOIN sizes USING (attempt, machine)),
of_step AS (SELECT attempt, step, win, sum(ns) AS all_ns, sum(came_last) AS operations FROM waits GROUP BY ALL),
of_win AS (SELECT attempt, win, count(*) AS n, sum(all_ns) AS win_ns, sum(operations) AS win_operations FROM of_step GROUP BY ALL),
mine AS (SELECT attempt, step, win, unit, ranks, part * ranks AS part, sum(ns) AS ns, sum(came_last) AS came_last
         FROM waits JOIN units USING (attempt, rank) GROUP BY attempt, step, win, unit, ranks, part),
-- In a step in which it was never last its share is 0: there is no row.
of_unit AS (SELECT attempt, win, unit, ranks, part, sum(came_last) AS came_last, sum(ns) AS ns, sum(ns / nullif(all_ns, 0)) AS shares,
                   sum(ns * ns / nullif(all_ns * all_ns, 0)) AS squares FROM mine JOIN of_step USING (attempt, step, win) GROUP BY ALL),
more AS (SELECT *, ns / n AS lost_ns, (ns - part * win_ns) / n AS more_ns, shares / n - part AS more_share,
                squares / n - shares * shares / n / n AS variance, max(win) OVER (PARTITION BY attempt) AS last_win
         FROM of_unit JOIN of_win USING (attempt, win) JOIN step_times USING (attempt, win) WHERE n >= 5 AND part < 0.99),
tested AS (SELECT attempt, win, unit, ranks, came_last, win_operations, n, step_ns, lost_ns, more_ns, last_win,
                  more_share / sqrt(greatest(variance, 1e-4) / (n - 1e0)) AS t, 4 + 6e0 / n AS least_t FROM more
           UNION ALL
           SELECT attempt, -1 AS win, unit, ranks, sum(came_last), sum(win_operations), sum(n), avg(step_ns), avg(lost_ns), avg(more_ns),
                  max(last_win), avg(more_share) * sqrt(count(*)) / greatest(stddev_samp(more_share), 1e-2), 3 + 6e0 / count(*)
           FROM more WHERE n >= 25 GROUP BY attempt, unit, ranks HAVING count(*) >= 4 AND count(*) > 0.9 * max(last_win)),
found AS (SELECT *, CASE WHEN win - lag(win, 1, -9) OVER (PARTITION BY attempt, unit, win < 0 ORDER BY win) > 2 THEN 1 ELSE 0 END AS begins
          FROM tested WHERE t > least_t AND more_ns > 0.01 * step_ns),
islands AS (SELECT *, sum(begins) OVER (PARTITION BY attempt, unit, win < 0 ORDER BY win) AS island FROM found),
sized AS (SELECT *, count(*) OVER (PARTITION BY attempt, unit, win < 0, island) AS windows, max(t) OVER (PARTITION BY attempt, unit,
          win < 0, island) AS most_t, sum(n * lost_ns) OVER (PARTITION BY attempt, unit, win < 0, island) AS sum_ns FROM islands),
kept AS (SELECT *, max(win) OVER (PARTITION BY attempt, unit) AS most_win
         FROM sized WHERE sum_ns > 5e8 AND (windows > 1 OR last_win = 0 OR most_t > 7 OR win < 0))
SELECT * FROM kept WHERE win >= 0 OR most_win < 0

-- table measures
-- What may explain that a rank is late, in a mean step; the least place that does is its reason. Operations of c10d wait for other ranks.
SELECT attempt, rank, CAST(first_step / 50 AS BIGINT) AS win, CASE WHEN on_gpu = 1 THEN 'GPU work' ELSE 'compute' END AS what, kind,
       sum(sum_ns) / max(steps * 1e0) AS ns, max(3 - on_gpu) AS place FROM raw_work
JOIN members USING (export, process_id) WHERE op IS NULL OR op NOT LIKE '%c10d%::%' GROUP BY attempt, rank, first_step, on_gpu, kind
UNION ALL
SELECT attempt, rank, win, 'waiting for a processor' AS what, '' AS kind, avg(no_processor_ns * 1e0) AS ns, 1 AS place
FROM steps GROUP BY attempt, rank, win HAVING count(no_processor_ns) * 2 > count(*)
UNION ALL
SELECT attempt, rank, win, phase AS what, '' AS kind, sum(end_ns - start_ns) / (count(DISTINCT step) * 1e0) AS ns, max(CASE
       WHEN phase = 'input' THEN 4 ELSE 5 END)
FROM raw_phases JOIN steps USING (export, step_id) GROUP BY attempt, rank, win, phase
UNION ALL
SELECT attempt, rank, win, 'code before its forward pass' AS what, '' AS kind, avg(ns) AS ns, 6 AS place
FROM (SELECT attempt, rank, win, step, min(CASE WHEN phase = 'forward' THEN start_ns END) - min(began_ns)
             - sum(CASE WHEN phase = 'input' THEN end_ns - start_ns ELSE 0e0 END) AS ns
      FROM raw_phases JOIN steps USING (export, step_id) GROUP BY attempt, rank, win, step) passes GROUP BY attempt, rank, win

-- result stragglers: Who is waited for, in collective operations
WITH usual AS (SELECT attempt, win, what, kind, percentile_disc(0.5) WITHIN GROUP (ORDER BY ns) AS usual_ns FROM measures GROUP BY ALL),
ends AS (SELECT attempt, unit, island, max(ranks) AS ranks, min(CASE WHEN win >= 0 THEN win * 50 END) AS since_step,
                max(CASE WHEN win >= 0 THEN win * 50 + 50 END) AS until_step, avg(lost_ns) AS lost_ns,
                round(1e2 * avg(least(lost_ns / step_ns, 1)), 1) AS lost_percent,
                round(1e2 * sum(came_last) / sum(win_operations), 1) AS came_last_percent FROM late GROUP BY attempt, unit, island, win < 0),
reasons AS (SELECT l.attempt, l.unit, l.island, m.what, m.place * 1e15 - avg(m.ns - usual_ns) AS place FROM late l
            JOIN measures m ON l.attempt = m.attempt AND l.unit = m.rank AND (l.win = m.win OR l.win < 0)
            JOIN usual u ON m.attempt = u.attempt AND m.win = u.win AND m.what = u.what AND m.kind = u.kind GROUP BY l.attempt, l.unit,
            l.island, m.what, m.kind, m.place HAVING avg(m.ns - usual_ns) > avg(l.lost_ns) / 3),
why AS (SELECT attempt, unit, island, min_by(what, place) AS reason FROM reasons GROUP BY ALL)
SELECT e.unit AS rank, m.host, e.ranks, e.attempt, since_step, until_step, came_last_percent, lost_ns, lost_percent, reason
FROM ends e LEFT JOIN why w USING (attempt, unit, island) JOIN members m ON e.attempt = m.attempt AND e.unit = m.rank ORDER BY lost_ns DESC,
  e.unit

-- table paces
-- Windows in which a rank computes longer: by robust z, from the ranks' median, and by 3 %. Processors differ by 0.4 %.
WITH middle AS (SELECT attempt, win, what, kind, median(ns) AS usual_ns, count(*) AS ranks FROM measures WHERE place IN (2, 3)
                GROUP BY ALL),
spread AS (SELECT attempt, win, what, kind, median(abs(ns - usual_ns)) AS mad FROM measures JOIN middle USING (attempt, win, what, kind)
           GROUP BY ALL),
scored AS (SELECT *, (ns - usual_ns) / greatest(1.4826 * mad, 0.004 * usual_ns) AS z, max(win) OVER (PARTITION BY attempt) AS last_win
           FROM measures JOIN middle USING (attempt, win, what, kind) JOIN spread USING (attempt, win, what, kind) WHERE ranks >= 4),
found AS (SELECT *, CASE WHEN win - lag(win, 1, -9) OVER (PARTITION BY attempt, rank, what, kind
          ORDER BY win) > 3 THEN 1 ELSE 0 END AS begins FROM scored WHERE z > 5 + 20e0 / ranks AND ns > 1.03 * usual_ns),
islands AS (SELECT *, sum(begins) OVER (PARTITION BY attempt, rank, what, kind ORDER BY win) AS island FROM found),
sized AS (SELECT *, count(*) OVER (PARTITION BY attempt, rank, what, kind, island) AS windows FROM islands)
SELECT * FROM sized WHERE windows > 2 OR (windows = last_win + 1 AND ns > 1.1 * usual_ns)

-- result slow_ranks: Ranks that compute longer than the others, without waiting and communication
WITH parts AS (SELECT attempt, rank, CAST(first_step / 50 AS BIGINT) AS win, kind, CASE
               WHEN on_gpu = 1 THEN 'GPU work' ELSE 'compute' END AS what, concat_ws(' ', layer, direction, op) AS most_in,
               sum(sum_ns) / max(steps * 1e0) AS part_ns FROM raw_work JOIN members USING (export, process_id)
               WHERE (op IS NULL OR op NOT LIKE '%c10d%::%') AND first_step / 50 IN (SELECT win FROM paces) GROUP BY attempt, rank,
               first_step, kind, on_gpu, layer, direction, op),
usual AS (SELECT attempt, win, kind, what, most_in, median(part_ns) AS usual_part_ns FROM parts GROUP BY ALL),
more AS (SELECT attempt, rank, kind, what, island, most_in, avg(part_ns - usual_part_ns) AS more_ns
         FROM paces JOIN parts USING (attempt, rank, win, kind, what) JOIN usual USING (attempt, win, kind, what, most_in) GROUP BY ALL),
worst AS (SELECT attempt, rank, kind, what, island, max_by(most_in, more_ns) AS most_in, max(more_ns) AS most_ns FROM more GROUP BY ALL),
waiting AS (SELECT attempt, rank, win, ns AS waiting_ns, median(ns) OVER (PARTITION BY attempt, win) AS usual_waiting_ns FROM measures
            WHERE place = 1),
ends AS (SELECT attempt, rank, kind, what, island, min(win) * 50 AS since_step, max(win) * 50 + 50 AS until_step, avg(ns) AS compute_ns,
         avg(usual_ns) AS usual_ns, round(1e2 * (avg(ns) / avg(usual_ns) - 1), 1) AS slower_percent, round(avg(z), 1) AS z,
         avg(waiting_ns - usual_waiting_ns) AS no_processor_ns FROM paces LEFT JOIN waiting USING (attempt, rank, win) GROUP BY attempt,
         rank, kind, what, island)
SELECT rank, host, attempt, since_step, until_step, what, compute_ns, usual_ns, slower_percent, z, most_in, most_ns, no_processor_ns
FROM ends LEFT JOIN worst USING (attempt, rank, kind, what, island) JOIN members USING (attempt, rank) ORDER BY slower_percent DESC, rank

-- table links
-- Communicators of a part of the ranks, whose other members are not told: the fastest tenth of the operations are those without waiting.
SELECT attempt, rank, host, communicator_number AS communicator, library, kind, members, bytes, count(*) AS operations,
       percentile_disc(0.1) WITHIN GROUP (ORDER BY end_ns - start_ns) AS ns
FROM raw_collectives JOIN members m USING (export, process_id)
WHERE raw_collectives.communicator IS NULL AND communicator_number IS NOT NULL AND end_ns IS NOT NULL
GROUP BY attempt, rank, host, communicator_number, library, kind, members, bytes

-- view factors
-- Bandwidths as nccl-tests define them: bytes of all ranks / time, and by `bus`. Of these kinds dlhook's bytes are one rank's part, of
-- gloo and UCC only those of all gather.
WITH kinds AS (SELECT DISTINCT library, kind, members FROM raw_collectives WHERE members > 1
               UNION SELECT DISTINCT library, kind, members FROM meetings WHERE members > 1),
parts AS (SELECT *, CASE WHEN kind = 'all gather' OR (kind IN ('reduce scatter', 'all to all') AND library NOT IN ('gloo', 'ucc'))
                    THEN members * 1e0 ELSE 1e0 END AS size FROM kinds)
SELECT *, CASE WHEN kind = 'all reduce' THEN 2e0 * (members - 1) / members
               WHEN kind IN ('all gather', 'reduce scatter', 'all to all') THEN (members - 1e0) / members
               WHEN kind IN ('broadcast', 'reduce') THEN 1e0 END AS bus FROM parts

-- result collectives: Collective operations: how far apart ranks come, and how fast data moves from then on
WITH timed AS (SELECT *, end_ns - greatest(last_ns, coalesce(lag(end_ns) OVER (PARTITION BY attempt, line ORDER BY last_ns),
               last_ns)) AS transfer_ns FROM meetings WHERE counts = 1),
alike AS (SELECT library, kind, members, bytes, count(*) AS operations, median(last_ns - first_ns) AS apart_ns,
          max(last_ns - first_ns) AS most_apart_ns, median(CASE WHEN transfer_ns > 0 THEN transfer_ns END) AS transfer_ns FROM timed
          GROUP BY ALL UNION ALL SELECT library, kind, members, bytes, sum(operations) AS operations, NULL AS apart_ns,
          NULL AS most_apart_ns, median(ns) AS transfer_ns FROM links GROUP BY library, kind, members, bytes)
SELECT library, kind, members, bytes, operations, apart_ns, most_apart_ns, transfer_ns, round(bytes * size / transfer_ns,
       3) AS algorithm_gbs, round(bytes * size * bus / transfer_ns, 3) AS bus_gbs
FROM alike LEFT JOIN factors USING (library, kind, members) ORDER BY operations DESC, library, kind, members, bytes

-- result slow_links: Ranks of which a communicator is slower than others of its size
WITH usual AS (SELECT attempt, library, kind, members, bytes, median(ns) AS usual_ns, count(*) AS ranks FROM links GROUP BY ALL),
spread AS (SELECT attempt, library, kind, members, bytes, median(abs(ns - usual_ns)) AS mad
           FROM links JOIN usual USING (attempt, library, kind, members, bytes) GROUP BY ALL)
SELECT rank, host, communicator, kind, members, bytes, operations, round(bytes * size * bus / ns, 3) AS bus_gbs,
       round(bytes * size * bus / usual_ns, 3) AS usual_gbs, round(1e2 * usual_ns / ns) AS usual_percent
FROM links JOIN usual USING (attempt, library, kind, members, bytes) JOIN spread USING (attempt, library, kind, members, bytes)
JOIN factors USING (library, kind, members) WHERE ranks >= 4 AND operations >= 20 AND ns > 1.25 * usual_ns AND ns > usual_ns + 5 * 1.4826 * mad
ORDER BY bus_gbs / usual_gbs, rank, bytes

-- result ranks: Each rank's steady steps
SELECT rank, host, attempt, count(*) AS steps, avg(step_ns) AS step_ns, avg(exposed_communication_ns) AS exposed_ns,
       round(1e2 * avg(exposed_communication_ns) / avg(step_ns), 1) AS exposed_percent, CASE
       WHEN count(no_processor_ns) * 2 > count(*) THEN avg(no_processor_ns) END AS no_processor_ns
FROM steps GROUP BY rank, host, attempt ORDER BY rank, attempt

-- result differences: Ranks with another algorithm, library, batch or program than nearly all
WITH used AS (SELECT rank, kind, layer, direction, op, implementation, sum(count) AS n, sum(sum_ns) AS ns
              FROM raw_work JOIN members USING (export, process_id) WHERE implementation IS NOT NULL GROUP BY ALL),
mainly AS (SELECT *, row_number() OVER (PARTITION BY rank, kind, layer, direction, op ORDER BY n DESC, implementation) AS place FROM used),
named AS (SELECT export, concat_ws(' ', kind, name, regexp_replace(object, '-[0-9a-f]+[.]', '.')) AS op, max(concat_ws(' ', state, CASE
          WHEN note LIKE 'first called%' THEN NULL ELSE note END, build_id)) AS value FROM capabilities WHERE kind IN ('library', 'tap')
          GROUP BY ALL),
facts AS (SELECT 'algorithm' AS what, rank, coalesce(kind, '') AS kind, coalesce(layer, '') AS layer, coalesce(direction, '') AS direction,
          coalesce(op, '') AS op, implementation AS value, ns * 1e0 / n AS ns FROM mainly WHERE place = 1 UNION ALL SELECT 'library' AS what,
          rank, '' AS kind, '' AS layer, '' AS direction, op, coalesce(value, '') AS value, NULL AS ns FROM members CROSS JOIN (SELECT
          DISTINCT op FROM named) k LEFT JOIN named USING (export, op) UNION ALL SELECT 'batch' AS what, rank, '' AS kind, '' AS layer,
          '' AS direction, '' AS op, CAST(CAST(median(batch) AS BIGINT) AS STRING) AS value, NULL AS ns FROM steps WHERE batch IS NOT NULL
          GROUP BY rank UNION ALL SELECT 'program' AS what, rank, '' AS kind, '' AS layer, '' AS direction, '' AS op,
          concat_ws(' ', program, script) AS value, NULL AS ns FROM processes WHERE role = 'rank'),
votes AS (SELECT what, kind, layer, direction, op, value, count(DISTINCT rank) AS ranks, median(ns) AS value_ns FROM facts GROUP BY ALL),
ordered AS (SELECT *, sum(ranks) OVER (PARTITION BY what, kind, layer, direction, op) AS voters,
                   row_number() OVER (PARTITION BY what, kind, layer, direction, op ORDER BY ranks DESC, value) AS place FROM votes),
chosen AS (SELECT what, kind, layer, direction, op, value AS usual, value_ns AS usual_ns, ranks AS usual_ranks FROM ordered
           WHERE place = 1)
SELECT DISTINCT what, rank, nullif(kind, '') AS kind, nullif(layer, '') AS layer, nullif(direction, '') AS direction, nullif(op, '') AS op,
       nullif(value, '') AS value, nullif(usual, '') AS usual, voters AS of_ranks, round(ns / usual_ns, 2) AS times_as_long
FROM facts JOIN ordered USING (what, kind, layer, direction, op, value) JOIN chosen USING (what, kind, layer, direction, op)
WHERE place > 1 AND (voters = 2 OR ranks <= greatest(1, 0.1 * voters) AND usual_ranks > 0.5 * voters)
ORDER BY what, kind, layer, direction, op, rank

-- table counts
-- What the results rest on, and what can't be known.
SELECT (SELECT count(DISTINCT rank) FROM members) AS ranks,
       (SELECT count(DISTINCT rank) FROM members)
       - (SELECT count(DISTINCT rank) FROM members JOIN raw_collectives USING (export, process_id)) AS silent,
       (SELECT count(DISTINCT machine) FROM members) AS machines,
       (SELECT count(*) FROM offsets) AS offsets, (SELECT count(*) FROM waits) AS waits, count(*) AS meetings,
       coalesce(sum(1 - counts), 0) AS crossed, count(*) - count(bytes) AS no_bytes, count(*) - count(end_ns) AS no_end,
       (SELECT coalesce(sum(operations), 0) FROM links) AS unmatched, (SELECT count(*) FROM measures WHERE place IN (2, 3)) AS measures,
       (SELECT coalesce(max(win + 1) * 50, 0) FROM step_times) AS last_step, (SELECT count(exposed_communication_ns) FROM steps) AS exposed
FROM meetings
