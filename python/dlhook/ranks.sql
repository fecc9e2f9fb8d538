-- Questions across ranks: the statements of `python -m dlhook.ranks`, in the SQL that DuckDB and Spark share.
--
-- A statement begins with "-- view NAME", "-- table NAME" (a view that is kept, because several read it) or "-- result NAME: TITLE", then its
-- columns' explanations. It may use those before it, and the raw_* tables with the column `export`, the folder a row is from. Times are
-- absolute, since the first export's time zero; `win` is the step's number / 50; `attempt` counts restarts.

-- view own
-- Processes that are ranks, and not a rank's helper: one without steps beside one with steps.
WITH counted AS (
  SELECT export, process_id, count(*) AS steps FROM raw_steps GROUP BY export, process_id),
versions AS (SELECT export, max(schema_version) AS schema_version FROM tables GROUP BY export),
told AS (
  SELECT p.*, v.schema_version, coalesce(p.job, '') AS of_job, coalesce(c.steps, 0) AS steps,
         CASE WHEN time_zero_unix_ns IS NULL THEN p.export ELSE coalesce(boot_id, host, p.export) END AS machine,
         start_ns + coalesce(time_zero_unix_ns, 0) AS begin_ns, end_ns + coalesce(time_zero_unix_ns, 0) AS finish_ns
  FROM raw_processes p LEFT JOIN counted c ON p.export = c.export AND p.process_id = c.process_id
  LEFT JOIN versions v ON p.export = v.export WHERE rank IS NOT NULL),
most AS (
  SELECT *, max(steps) OVER (PARTITION BY export, of_job, rank) AS most_steps,
         row_number() OVER (PARTITION BY machine, pid, begin_ns ORDER BY export) AS copy
  FROM told)
SELECT * FROM most WHERE steps > 0 OR most_steps = 0

-- table processes
-- role: 'rank'; or why it is left out: 'copy' (exported twice), 'other job', 'twice' (the same rank at the same time).
WITH jobs AS (SELECT of_job, count(DISTINCT rank) AS ranks, min(begin_ns) AS begin_ns FROM own GROUP BY of_job),
largest AS (SELECT of_job FROM jobs ORDER BY ranks DESC, begin_ns LIMIT 1),
tried AS (
  SELECT o.*, CASE WHEN copy > 1 THEN 'copy' WHEN l.of_job IS NULL THEN 'other job'
                   WHEN row_number() OVER (PARTITION BY o.of_job, rank, restart, copy ORDER BY begin_ns, o.export) > 1 AND begin_ns < max(finish_ns)
                        OVER (PARTITION BY o.of_job, rank, restart, copy ORDER BY begin_ns, o.export ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                   THEN 'twice' ELSE 'rank' END AS role
  FROM own o LEFT JOIN largest l ON o.of_job = l.of_job)
SELECT export, process_id, host, machine, rank, world_size, job, dlhook_version, schema_version, program, script, restart, time_zero_unix_ns, role, begin_ns, finish_ns,
       coalesce(restart, row_number() OVER (PARTITION BY role, of_job, rank ORDER BY begin_ns) - 1) AS attempt
FROM tried

-- table members
SELECT export, process_id, rank, attempt, host, machine,
       coalesce(time_zero_unix_ns, 0) - (SELECT coalesce(min(time_zero_unix_ns), 0) FROM processes WHERE role = 'rank') AS zero_ns
FROM processes WHERE role = 'rank'

-- view steps
SELECT m.attempt, m.rank, m.host, s.export, s.step_id, s.number AS step, CAST(floor(s.number / 50) AS BIGINT) AS win, s.end_ns - s.start_ns AS step_ns,
       s.no_processor_ns, s.exposed_communication_ns, s.batch
FROM raw_steps s JOIN members m ON s.export = m.export AND s.process_id = m.process_id WHERE s.steady = 1

-- table step_times
SELECT attempt, win, median(step_ns) AS step_ns FROM steps GROUP BY attempt, win

-- view calls
-- What can be matched between ranks. `meeting`: its communicator, or where none is told its library and kind.
SELECT m.attempt, m.rank, m.machine, coalesce(c.communicator, concat(c.library, ' ', c.kind)) AS meeting, c.sequence, c.step,
       coalesce(CAST(floor(c.step / 50) AS BIGINT), -1) AS win, c.library, c.kind, c.bytes, c.members, c.communicator IS NOT NULL AS is_told,
       c.kind IN ('all reduce', 'all gather', 'reduce scatter', 'all to all', 'barrier') AS synchronizes,
       c.start_ns + m.zero_ns AS start_ns, c.end_ns + m.zero_ns AS end_ns
FROM raw_collectives c JOIN members m ON c.export = m.export AND c.process_id = m.process_id
WHERE c.sequence IS NOT NULL AND (c.communicator IS NOT NULL OR c.communicator_number IS NULL)

-- table groups
WITH mine AS (
  SELECT attempt, meeting, rank, count(*) AS operations, max(CASE WHEN synchronizes THEN 1 ELSE 0 END) AS synchronizes
  FROM calls GROUP BY attempt, meeting, rank)
SELECT attempt, meeting, count(*) AS ranks, min(operations) AS operations FROM mine GROUP BY attempt, meeting
HAVING count(*) > 1 AND (max(synchronizes) = 1 OR min(operations) = max(operations))

-- table offsets
-- How far a machine's clock is ahead. Ranks leave an operation that synchronizes at the same time.
WITH ends AS (
  SELECT c.attempt, c.meeting, c.sequence, avg(c.end_ns) AS end_ns
  FROM calls c JOIN groups g ON c.attempt = g.attempt AND c.meeting = g.meeting
  WHERE c.synchronizes AND (SELECT count(DISTINCT machine) FROM members) > 1
  GROUP BY c.attempt, c.meeting, c.sequence HAVING count(c.end_ns) = max(g.ranks)),
apart AS (
  SELECT c.attempt, c.machine, c.win, count(*) AS operations, median(c.end_ns - e.end_ns) AS ahead_ns,
         percentile_disc(0.84) WITHIN GROUP (ORDER BY c.end_ns - e.end_ns) - percentile_disc(0.16) WITHIN GROUP (ORDER BY c.end_ns - e.end_ns) AS spread_ns
  FROM calls c JOIN ends e ON c.attempt = e.attempt AND c.meeting = e.meeting AND c.sequence = e.sequence
  GROUP BY c.attempt, c.machine, c.win),
middle AS (SELECT attempt, win, median(ahead_ns) AS ahead_ns FROM apart GROUP BY attempt, win)
SELECT a.attempt, a.machine, a.win, a.operations, CAST(a.ahead_ns - m.ahead_ns AS BIGINT) AS ahead_ns, CAST(a.spread_ns / 2 AS BIGINT) AS error_ns
FROM apart a JOIN middle m ON a.attempt = m.attempt AND a.win = m.win

-- result clocks: The machines' clocks, aligned by operations that synchronize
-- host: Its clock.
-- ranks: On it.
-- operations: That all ranks left together.
-- ahead_ns: Of the middle one of the clocks; the median over windows of 50 steps.
-- drift_ns: From the least of these windows to the most.
-- error_ns: How far the ends of one operation lie apart, half of the middle two thirds.
WITH hosts AS (SELECT machine, min(host) AS host, count(DISTINCT rank) AS ranks FROM members GROUP BY machine)
SELECT h.host, h.ranks, sum(o.operations) AS operations, CAST(median(o.ahead_ns) AS BIGINT) AS ahead_ns,
       max(o.ahead_ns) - min(o.ahead_ns) AS drift_ns, CAST(median(o.error_ns) AS BIGINT) AS error_ns
FROM offsets o JOIN hosts h ON o.machine = h.machine GROUP BY h.host, h.machine, h.ranks ORDER BY abs(median(o.ahead_ns)) DESC, h.host

-- table meetings
-- Operations that all ranks of their group came to. waited_ns: the mean wait of the others for the last one.
WITH usual AS (SELECT attempt, machine, CAST(median(ahead_ns) AS BIGINT) AS ahead_ns FROM offsets GROUP BY attempt, machine),
aligned AS (
  SELECT c.*, c.start_ns - coalesce(o.ahead_ns, u.ahead_ns, 0) AS came_ns, c.end_ns - coalesce(o.ahead_ns, u.ahead_ns, 0) AS left_ns
  FROM calls c LEFT JOIN offsets o ON c.attempt = o.attempt AND c.machine = o.machine AND c.win = o.win
  LEFT JOIN usual u ON c.attempt = u.attempt AND c.machine = u.machine),
met AS (
  SELECT attempt, meeting, sequence, max(step) AS step, max(library) AS library, max(kind) AS kind, max(bytes) AS bytes, max(members) AS members,
         count(*) AS ranks, min(came_ns) AS first_ns, max(came_ns) AS last_ns, max_by(rank, came_ns) AS last_rank, min(left_ns) AS left_ns,
         max(left_ns) AS end_ns, (count(*) * max(came_ns) - sum(came_ns)) / (count(*) - 1e0) AS waited_ns,
         max(CASE WHEN synchronizes AND NOT is_told THEN 1 ELSE 0 END) AS must_meet
  FROM aligned GROUP BY attempt, meeting, sequence HAVING count(*) > 1),
error AS (SELECT coalesce(max(error_ns), 0) AS ns FROM offsets),
whole AS (SELECT m.*, CASE WHEN must_meet = 1 AND left_ns + 2 * e.ns < last_ns THEN 1 ELSE 0 END AS crossed
          FROM met m JOIN groups g ON m.attempt = g.attempt AND m.meeting = g.meeting AND m.ranks = g.ranks CROSS JOIN error e)
SELECT *, avg(crossed * 1e0) OVER (PARTITION BY attempt, meeting) AS crossed_part FROM whole

-- table waits
-- How long the others waited for a rank in a step that is steady on all: operations at the same time once, at most a step.
WITH good AS (SELECT attempt, step, win, median(step_ns) AS step_ns FROM steps GROUP BY attempt, step, win),
one AS (
  SELECT m.attempt, m.step, m.last_rank AS rank, m.last_ns, m.last_ns - m.waited_ns AS from_ns,
         max(m.last_ns) OVER (PARTITION BY m.attempt, m.step, m.last_rank ORDER BY m.last_ns - m.waited_ns, m.last_ns
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns
  FROM meetings m WHERE m.crossed = 0 AND m.crossed_part <= 0.05)
SELECT o.attempt, o.step, g.win, o.rank, count(*) AS came_last,
       least(sum(greatest(o.last_ns - greatest(o.from_ns, coalesce(o.covered_ns, o.from_ns)), 0)), max(g.step_ns)) AS ns
FROM one o JOIN good g ON o.attempt = g.attempt AND o.step = g.step GROUP BY o.attempt, o.step, g.win, o.rank

-- table late
-- Windows in which the others wait for a rank, or a machine's ranks, more than chance explains: at least 1 % of a step more than for others,
-- by Student's t over the steps. Islands of windows, of which one may be left out.
WITH sizes AS (
  SELECT attempt, machine, min(host) AS host, count(DISTINCT rank) AS ranks FROM members GROUP BY attempt, machine),
world AS (SELECT attempt, sum(ranks) AS ranks, count(*) AS machines FROM sizes GROUP BY attempt),
units AS (
  SELECT m.attempt, m.rank, m.rank AS who, m.host, 1 AS is_rank, 1e0 / w.ranks AS part, 1 AS ranks FROM members m JOIN world w ON m.attempt = w.attempt
  UNION ALL
  SELECT m.attempt, m.rank, f.rank AS who, m.host, 0 AS is_rank, s.ranks * 1e0 / w.ranks AS part, s.ranks FROM members m
  JOIN world w ON m.attempt = w.attempt JOIN sizes s ON m.attempt = s.attempt AND m.machine = s.machine
  JOIN (SELECT attempt, machine, min(rank) AS rank FROM members GROUP BY attempt, machine) f ON m.attempt = f.attempt AND m.machine = f.machine
  WHERE w.machines > 1 AND s.ranks > 1),
of_step AS (SELECT attempt, step, win, sum(ns) AS ns, sum(came_last) AS operations FROM waits GROUP BY attempt, step, win),
of_win AS (SELECT attempt, win, count(*) AS n, sum(ns) AS ns, sum(ns * ns) AS squares, sum(operations) AS operations FROM of_step GROUP BY attempt, win),
mine AS (
  SELECT w.attempt, w.step, w.win, u.is_rank, u.who, u.host, u.part, u.ranks, sum(w.ns) AS ns, sum(w.came_last) AS came_last
  FROM waits w JOIN units u ON w.attempt = u.attempt AND w.rank = u.rank
  GROUP BY w.attempt, w.step, w.win, u.is_rank, u.who, u.host, u.part, u.ranks),
sums AS (
  SELECT m.attempt, m.win, m.is_rank, m.who, m.host, m.ranks, w.n, sum(m.came_last) AS came_last, max(w.operations) AS operations,
         sum(m.ns) / w.n AS lost_ns, (sum(m.ns) - m.part * w.ns) / w.n AS more_ns,
         sum(m.ns * m.ns) - 2 * m.part * sum(m.ns * s.ns) + m.part * m.part * w.squares AS squares
  FROM mine m JOIN of_step s ON m.attempt = s.attempt AND m.step = s.step JOIN of_win w ON m.attempt = w.attempt AND m.win = w.win
  GROUP BY m.attempt, m.win, m.is_rank, m.who, m.host, m.ranks, m.part, w.n, w.ns, w.squares),
tested AS (
  SELECT s.*, t.step_ns, s.more_ns / sqrt(nullif(greatest(s.squares - s.n * s.more_ns * s.more_ns, 1e0) / (s.n * (s.n - 1e0)), 0)) AS t,
         max(s.win) OVER (PARTITION BY s.attempt) AS last_win
  FROM sums s JOIN step_times t ON s.attempt = t.attempt AND s.win = t.win WHERE s.n >= 5),
found AS (
  SELECT *, CASE WHEN win - lag(win, 1, -9) OVER (PARTITION BY attempt, is_rank, who ORDER BY win) > 2 THEN 1 ELSE 0 END AS begins
  FROM tested WHERE t > 4 + 6e0 / n AND more_ns > 0.01 * step_ns),
islands AS (SELECT *, sum(begins) OVER (PARTITION BY attempt, is_rank, who ORDER BY win) AS island FROM found),
sized AS (SELECT *, count(*) OVER (PARTITION BY attempt, is_rank, who, island) AS windows,
                 max(t) OVER (PARTITION BY attempt, is_rank, who, island) AS most_t FROM islands)
SELECT * FROM sized WHERE windows > 1 OR last_win = 0 OR most_t > 7

-- table measures
-- What may explain that a rank is late, in a mean step: the first that does is its reason.
WITH work AS (
  SELECT w.export, w.process_id, w.first_step / 50 AS win, w.kind, w.on_gpu, sum(w.sum_ns) / max(w.steps * 1e0) AS ns
  FROM raw_work w WHERE w.op NOT LIKE 'c10d::%' GROUP BY w.export, w.process_id, w.first_step, w.kind, w.on_gpu)
SELECT m.attempt, m.rank, CAST(w.win AS BIGINT) AS win, CASE WHEN w.on_gpu = 1 THEN 'GPU work' ELSE 'compute' END AS what,
       w.kind, w.ns, 3 - w.on_gpu AS place
FROM work w JOIN members m ON w.export = m.export AND w.process_id = m.process_id
UNION ALL
SELECT attempt, rank, win, 'waiting for a processor' AS what, '' AS kind, avg(no_processor_ns * 1e0) AS ns, 1 AS place
FROM steps WHERE no_processor_ns IS NOT NULL GROUP BY attempt, rank, win
UNION ALL
SELECT s.attempt, s.rank, s.win, p.phase AS what, '' AS kind, sum(p.end_ns - p.start_ns) / (count(DISTINCT s.step) * 1e0) AS ns,
       CASE WHEN p.phase = 'input' THEN 4 ELSE 5 END AS place
FROM raw_phases p JOIN steps s ON p.export = s.export AND p.step_id = s.step_id GROUP BY s.attempt, s.rank, s.win, p.phase

-- result stragglers: Who is waited for, in collective operations
-- rank: Of a machine with several late ranks: its first.
-- host: Its machine.
-- ranks: Late together: 1, or those of the machine.
-- attempt: Of a job that was restarted: 0 before.
-- since_step: In windows of 50 steps.
-- until_step: The last one's end.
-- came_last_percent: Of the operations.
-- lost_ns: What the others lose in a mean step of these: their mean wait for it.
-- lost_percent: Of the step.
-- reason: What takes it longer than the others, by at least a third of that; NULL: not known.
WITH usual AS (
  SELECT attempt, win, what, kind, percentile_disc(0.5) WITHIN GROUP (ORDER BY ns) AS ns FROM measures GROUP BY attempt, win, what, kind),
ends AS (
  SELECT attempt, is_rank, who, min(host) AS host, max(ranks) AS ranks, island, min(win) AS since, max(win) AS until, sum(came_last) AS came_last,
         sum(operations) AS operations, avg(lost_ns) AS lost_ns, avg(lost_ns / step_ns) AS part FROM late GROUP BY attempt, is_rank, who, island),
reasons AS (
  SELECT l.attempt, l.is_rank, l.who, l.island, m.what, m.kind, m.place, avg(m.ns - u.ns) AS more_ns, avg(l.lost_ns) AS lost_ns
  FROM late l JOIN measures m ON l.attempt = m.attempt AND l.who = m.rank AND l.win = m.win
  JOIN usual u ON m.attempt = u.attempt AND m.win = u.win AND m.what = u.what AND m.kind = u.kind
  GROUP BY l.attempt, l.is_rank, l.who, l.island, m.what, m.kind, m.place),
why AS (SELECT attempt, is_rank, who, island, min_by(what, place * 1e15 - more_ns) AS what FROM reasons WHERE more_ns > lost_ns / 3
          GROUP BY attempt, is_rank, who, island),
hosts AS (SELECT attempt, host, max(is_rank) AS has_rank FROM ends e WHERE is_rank = 0 OR came_last > 0.6 *
          coalesce((SELECT max(h.came_last) FROM ends h WHERE h.is_rank = 0 AND h.host = e.host AND h.attempt = e.attempt), 0) GROUP BY attempt, host)
SELECT e.who AS rank, e.host, e.ranks, e.attempt, e.since * 50 AS since_step, (e.until + 1) * 50 AS until_step,
       round(1e2 * e.came_last / e.operations, 1) AS came_last_percent, CAST(e.lost_ns AS BIGINT) AS lost_ns, round(1e2 * e.part, 1) AS lost_percent,
       f.what AS reason
FROM ends e LEFT JOIN hosts h ON e.attempt = h.attempt AND e.host = h.host
LEFT JOIN why f ON e.attempt = f.attempt AND e.is_rank = f.is_rank AND e.who = f.who AND e.island = f.island
WHERE e.is_rank = coalesce(h.has_rank, 1) ORDER BY e.lost_ns DESC, e.who

-- table paces
-- Robust z of a rank's compute in a window: from the ranks' median, by their median absolute deviation or 0.4 % of it.
WITH middle AS (
  SELECT attempt, win, what, kind, median(ns) AS usual_ns, count(*) AS ranks FROM measures WHERE place IN (2, 3) GROUP BY attempt, win, what, kind),
spread AS (
  SELECT m.attempt, m.win, m.what, m.kind, max(d.usual_ns) AS usual_ns, max(d.ranks) AS ranks, median(abs(m.ns - d.usual_ns)) AS mad
  FROM measures m JOIN middle d ON m.attempt = d.attempt AND m.win = d.win AND m.what = d.what AND m.kind = d.kind
  GROUP BY m.attempt, m.win, m.what, m.kind),
scored AS (
  SELECT m.attempt, m.rank, m.win, m.what, m.kind, m.ns, s.usual_ns, s.ranks, max(m.win) OVER (PARTITION BY m.attempt) AS last_win,
         (m.ns - s.usual_ns) / greatest(1.4826 * s.mad, 0.004 * s.usual_ns) AS z
  FROM measures m JOIN spread s ON m.attempt = s.attempt AND m.win = s.win AND m.what = s.what AND m.kind = s.kind WHERE s.ranks >= 4),
found AS (
  SELECT *, CASE WHEN win - lag(win, 1, -9) OVER (PARTITION BY attempt, rank, what, kind ORDER BY win) > 2 THEN 1 ELSE 0 END AS begins
  FROM scored WHERE z > 5 + 20e0 / ranks AND ns > 1.03 * usual_ns),
islands AS (SELECT *, sum(begins) OVER (PARTITION BY attempt, rank, what, kind ORDER BY win) AS island FROM found),
sized AS (SELECT *, count(*) OVER (PARTITION BY attempt, rank, what, kind, island) AS windows FROM islands)
SELECT * FROM sized WHERE windows > 2 OR windows = last_win + 1

-- result slow_ranks: Ranks that compute longer than the others, waiting and communication apart
-- rank: Its number.
-- host: Its machine.
-- attempt: Of a job that was restarted: 0 before.
-- since_step: In windows of 50 steps.
-- until_step: The last one's end.
-- what: compute: self time of calls and operations on the host; GPU work: durations.
-- compute_ns: In a mean step of these.
-- usual_ns: The ranks' median.
-- slower_percent: Than the median.
-- z: How many deviations from the median: robust, by the median absolute deviation.
-- most_in: Layer, direction and operation that take most of it.
-- most_ns: How much longer these take, in a mean step.
-- no_processor_ns: More of it than the median, of the compute's time in which its thread waited for a processor; NULL: not known.
WITH parts AS (
  SELECT m.attempt, m.rank, CAST(w.first_step / 50 AS BIGINT) AS win, w.kind, CASE WHEN w.on_gpu = 1 THEN 'GPU work' ELSE 'compute' END AS what,
         concat_ws(' ', w.layer, w.direction, w.op) AS most_in, sum(w.sum_ns) / max(w.steps * 1e0) AS ns
  FROM raw_work w JOIN members m ON w.export = m.export AND w.process_id = m.process_id
  WHERE w.op NOT LIKE 'c10d::%' AND w.first_step / 50 IN (SELECT win FROM paces)
  GROUP BY m.attempt, m.rank, w.first_step, w.kind, w.on_gpu, w.layer, w.direction, w.op),
usual AS (SELECT attempt, win, kind, what, most_in, median(ns) AS ns FROM parts GROUP BY attempt, win, kind, what, most_in),
more AS (
  SELECT s.attempt, s.rank, s.kind, s.what, s.island, p.most_in, avg(p.ns - u.ns) AS ns
  FROM paces s JOIN parts p ON s.attempt = p.attempt AND s.rank = p.rank AND s.win = p.win AND s.kind = p.kind AND s.what = p.what
  JOIN usual u ON p.attempt = u.attempt AND p.win = u.win AND p.kind = u.kind AND p.what = u.what AND p.most_in = u.most_in
  GROUP BY s.attempt, s.rank, s.kind, s.what, s.island, p.most_in),
worst AS (SELECT attempt, rank, kind, what, island, max_by(most_in, ns) AS most_in, max(ns) AS ns FROM more GROUP BY attempt, rank, kind, what, island),
middle AS (SELECT attempt, win, median(ns) AS ns FROM measures WHERE place = 1 GROUP BY attempt, win),
queued AS (
  SELECT s.attempt, s.rank, s.kind, s.what, s.island, avg(q.ns - m.ns) AS ns
  FROM paces s JOIN measures q ON s.attempt = q.attempt AND s.rank = q.rank AND s.win = q.win AND q.place = 1
  JOIN middle m ON q.attempt = m.attempt AND q.win = m.win GROUP BY s.attempt, s.rank, s.kind, s.what, s.island),
ends AS (
  SELECT attempt, rank, kind, what, island, min(win) AS since, max(win) AS until, avg(ns) AS ns, avg(usual_ns) AS usual_ns, avg(z) AS z
  FROM paces GROUP BY attempt, rank, kind, what, island)
SELECT e.rank, m.host, e.attempt, e.since * 50 AS since_step, (e.until + 1) * 50 AS until_step, e.what, CAST(e.ns AS BIGINT) AS compute_ns,
       CAST(e.usual_ns AS BIGINT) AS usual_ns, round(1e2 * (e.ns / e.usual_ns - 1), 1) AS slower_percent, round(e.z, 1) AS z, w.most_in,
       CAST(w.ns AS BIGINT) AS most_ns, CAST(q.ns AS BIGINT) AS no_processor_ns
FROM ends e JOIN members m ON e.attempt = m.attempt AND e.rank = m.rank
LEFT JOIN worst w ON e.attempt = w.attempt AND e.rank = w.rank AND e.kind = w.kind AND e.what = w.what AND e.island = w.island
LEFT JOIN queued q ON e.attempt = q.attempt AND e.rank = q.rank AND e.kind = q.kind AND e.what = q.what AND e.island = q.island
ORDER BY slower_percent DESC, e.rank

-- table links
-- Communicators of a part of the ranks, which can't be matched: the fastest tenth of the operations are those without waiting.
SELECT m.attempt, m.rank, m.host, c.communicator_number, c.library, c.kind, c.bytes, c.members, count(*) AS operations,
       percentile_disc(0.1) WITHIN GROUP (ORDER BY c.end_ns - c.start_ns) AS ns
FROM raw_collectives c JOIN members m ON c.export = m.export AND c.process_id = m.process_id
WHERE c.communicator IS NULL AND c.communicator_number IS NOT NULL AND c.end_ns IS NOT NULL
GROUP BY m.attempt, m.rank, m.host, c.communicator_number, c.library, c.kind, c.bytes, c.members

-- view factors
-- As nccl-tests define bandwidths: size of all ranks together / time, times `bus`. dlhook's bytes of these kinds are one rank's part.
WITH kinds AS (SELECT DISTINCT kind, members FROM raw_collectives),
parts AS (SELECT kind, members, CASE WHEN kind IN ('all gather', 'reduce scatter', 'all to all') THEN members * 1e0 ELSE 1e0 END AS size FROM kinds)
SELECT kind, members, size, CASE WHEN kind = 'all reduce' THEN 2e0 * (members - 1) / members WHEN size > 1 THEN (members - 1e0) / members
                                 WHEN kind IN ('broadcast', 'reduce') THEN 1e0 END AS bus FROM parts

-- result collectives: Collective operations: how far apart ranks come, and how fast data moves from then on
-- library: That does it.
-- kind: What is done.
-- members: Ranks of the communicator; NULL: not known.
-- bytes: Of one operation, as in the table collectives of a report; NULL: not known.
-- operations: That were matched between ranks; of a part of the ranks: of all of these together.
-- apart_ns: From the first rank's arrival to the last one's, the median; NULL: can't be matched.
-- most_apart_ns: The most.
-- transfer_ns: From the last arrival to the end, the median; where ranks can't be matched, of the fastest tenth of the operations.
-- algorithm_gbs: Size / transfer_ns.
-- bus_gbs: What the slowest link moves.
WITH timed AS (
  SELECT *, end_ns - greatest(last_ns, coalesce(lag(end_ns) OVER (PARTITION BY attempt, meeting ORDER BY sequence), last_ns)) AS transfer_ns
  FROM meetings WHERE crossed = 0 AND crossed_part <= 0.05),
alike AS (
  SELECT library, kind, members, bytes, count(*) AS operations, median(last_ns - first_ns) AS apart_ns, max(last_ns - first_ns) AS most_apart_ns,
         median(CASE WHEN transfer_ns > 0 THEN transfer_ns END) AS transfer_ns
  FROM timed GROUP BY library, kind, members, bytes
  UNION ALL
  SELECT library, kind, members, bytes, sum(operations) AS operations, NULL AS apart_ns, NULL AS most_apart_ns, median(ns) AS transfer_ns
  FROM links GROUP BY library, kind, members, bytes)
SELECT a.library, a.kind, a.members, a.bytes, a.operations, CAST(a.apart_ns AS BIGINT) AS apart_ns, CAST(a.most_apart_ns AS BIGINT) AS most_apart_ns,
       CAST(a.transfer_ns AS BIGINT) AS transfer_ns, round(a.bytes * f.size / a.transfer_ns, 3) AS algorithm_gbs,
       round(a.bytes * f.size * f.bus / a.transfer_ns, 3) AS bus_gbs
FROM alike a LEFT JOIN factors f ON a.kind = f.kind AND a.members = f.members
ORDER BY a.operations DESC, a.library, a.kind, a.members, a.bytes

-- result slow_links: Ranks whose communicator is slower than others of its size
-- rank: Its number.
-- host: Its machine.
-- communicator: Its number in the rank's process.
-- kind: What is done.
-- members: Ranks of the communicator.
-- bytes: Of one operation.
-- operations: Of the rank.
-- bus_gbs: Bus bandwidth of the fastest tenth of them.
-- usual_gbs: The median of the ranks.
WITH usual AS (SELECT attempt, library, kind, members, bytes, median(ns) AS ns, count(*) AS ranks FROM links GROUP BY attempt, library, kind, members, bytes),
spread AS (
  SELECT l.attempt, l.library, l.kind, l.members, l.bytes, max(u.ns) AS ns, median(abs(l.ns - u.ns)) AS mad
  FROM links l JOIN usual u ON l.attempt = u.attempt AND l.library = u.library AND l.kind = u.kind AND l.members = u.members AND l.bytes = u.bytes
  WHERE u.ranks >= 4 GROUP BY l.attempt, l.library, l.kind, l.members, l.bytes)
SELECT l.rank, l.host, l.communicator_number AS communicator, l.kind, l.members, l.bytes, l.operations,
       round(l.bytes * f.size * f.bus / l.ns, 3) AS bus_gbs, round(l.bytes * f.size * f.bus / s.ns, 3) AS usual_gbs
FROM links l JOIN spread s ON l.attempt = s.attempt AND l.library = s.library AND l.kind = s.kind AND l.members = s.members AND l.bytes = s.bytes
JOIN factors f ON l.kind = f.kind AND l.members = f.members
WHERE l.operations >= 20 AND l.ns > 1.25 * s.ns AND l.ns > s.ns + 5 * 1.4826 * s.mad ORDER BY bus_gbs / usual_gbs, l.rank, l.bytes

-- result ranks: Each rank's steady steps
-- rank: Its number.
-- host: Its machine.
-- attempt: Of a job that was restarted: 0 before.
-- steps: Steady ones.
-- step_ns: Of a mean step.
-- exposed_ns: Communication of GPUs without other kernels beside it; NULL: not measured.
-- exposed_percent: Of the step.
-- no_processor_ns: Its thread was runnable, waiting for a processor; NULL: not known.
SELECT rank, host, attempt, count(*) AS steps, CAST(avg(step_ns) AS BIGINT) AS step_ns, CAST(avg(exposed_communication_ns) AS BIGINT) AS exposed_ns,
       round(1e2 * avg(exposed_communication_ns) / avg(step_ns), 1) AS exposed_percent, CAST(avg(no_processor_ns) AS BIGINT) AS no_processor_ns
FROM steps GROUP BY rank, host, attempt ORDER BY rank, attempt

-- result differences: Ranks with another algorithm, library, batch or program than nearly all
-- what: algorithm, library, batch, program.
-- rank: Its number.
-- layer: Of the network.
-- direction: forward, backward …
-- op: Operation; library or tap.
-- value: What it has; NULL: nothing of the kind.
-- usual: What the others have.
-- times_as_long: A call or piece of GPU work, compared with that of the others.
WITH used AS (
  SELECT m.rank, w.layer, w.direction, w.op, w.implementation, sum(w.count) AS n, sum(w.sum_ns) AS ns
  FROM raw_work w JOIN members m ON w.export = m.export AND w.process_id = m.process_id WHERE w.implementation IS NOT NULL
  GROUP BY m.rank, w.layer, w.direction, w.op, w.implementation),
mainly AS (SELECT *, row_number() OVER (PARTITION BY rank, layer, direction, op ORDER BY n DESC, implementation) AS place FROM used),
loaded AS (
  SELECT DISTINCT export, concat_ws(' ', kind, name, regexp_replace(object, '-[0-9a-f]+[.]', '.')) AS op,
         concat_ws(' ', state, CASE WHEN note LIKE 'first called%' THEN NULL ELSE note END, build_id) AS value
  FROM capabilities WHERE kind IN ('library', 'tap')),
named AS (SELECT export, op, max(value) AS value FROM loaded GROUP BY export, op),
facts AS (
  SELECT 'algorithm' AS what, rank, coalesce(layer, '') AS layer, coalesce(direction, '') AS direction, coalesce(op, '') AS op, implementation AS value,
         ns * 1e0 / n AS ns FROM mainly WHERE place = 1
  UNION ALL
  SELECT 'library' AS what, m.rank, '' AS layer, '' AS direction, k.op, coalesce(n.value, '') AS value, NULL AS ns
  FROM members m CROSS JOIN (SELECT DISTINCT op FROM named) k LEFT JOIN named n ON m.export = n.export AND k.op = n.op
  UNION ALL
  SELECT 'batch' AS what, rank, '' AS layer, '' AS direction, '' AS op, CAST(CAST(median(batch) AS BIGINT) AS STRING) AS value, NULL AS ns
  FROM steps WHERE batch IS NOT NULL GROUP BY rank
  UNION ALL
  SELECT 'program' AS what, rank, '' AS layer, '' AS direction, '' AS op, concat_ws(' ', program, script) AS value, NULL AS ns
  FROM processes WHERE role = 'rank'),
votes AS (SELECT what, layer, direction, op, value, count(DISTINCT rank) AS ranks, median(ns) AS ns FROM facts GROUP BY what, layer, direction, op, value),
ordered AS (SELECT *, sum(ranks) OVER (PARTITION BY what, layer, direction, op) AS voters,
                   row_number() OVER (PARTITION BY what, layer, direction, op ORDER BY ranks DESC, value) AS place FROM votes)
SELECT DISTINCT f.what, f.rank, nullif(f.layer, '') AS layer, nullif(f.direction, '') AS direction, nullif(f.op, '') AS op,
       nullif(f.value, '') AS value, nullif(u.value, '') AS usual, round(f.ns / u.ns, 2) AS times_as_long
FROM facts f JOIN ordered u ON f.what = u.what AND f.layer = u.layer AND f.direction = u.direction AND f.op = u.op AND u.place = 1
JOIN ordered v ON f.what = v.what AND f.layer = v.layer AND f.direction = v.direction AND f.op = v.op AND f.value = v.value
WHERE f.value <> u.value AND v.ranks <= greatest(1, 0.1 * v.voters)
ORDER BY f.what, layer, direction, op, f.rank

-- table counts
-- What the results rest on: what is not known is said.
SELECT (SELECT count(DISTINCT rank) FROM members) AS ranks, (SELECT count(DISTINCT machine) FROM members) AS machines,
       (SELECT count(*) FROM offsets) AS offsets, (SELECT count(*) FROM meetings) AS meetings,
       (SELECT count(*) FROM meetings WHERE crossed = 1 OR crossed_part > 0.05) AS crossed,
       (SELECT count(*) FROM meetings WHERE bytes IS NULL) AS no_bytes, (SELECT count(*) FROM meetings WHERE end_ns IS NULL) AS no_end,
       (SELECT coalesce(sum(operations), 0) FROM links) AS unmatched, (SELECT count(*) FROM measures WHERE place IN (2, 3)) AS measures,
       (SELECT coalesce(max(win + 1) * 50, 0) FROM step_times) AS last_step, (SELECT CAST(median(step_ns) AS BIGINT) FROM step_times) AS step_ns,
       (SELECT count(exposed_communication_ns) FROM steps) AS exposed
