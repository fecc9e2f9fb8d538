-- Questions to a database that `dlhook export RUN --format sqlite -o run.sqlite` wrote: sqlite3 -box run.sqlite <docs/queries.sql

-- Where does a step go, by kind of activity?
SELECT step, activity, sum(share_ns) / 1e6 / (SELECT count(*) FROM raw_steps WHERE steady AND kind = step) AS ms
FROM activities WHERE steady GROUP BY step, activity ORDER BY step, ms DESC;

-- What does each layer cost the host, forward and backward, in a step? (On GPUs: the table `layers`, or `gpu_activities` in its place.)
SELECT coalesce(layer, '(no layer)') AS layer, sum(share_ns) FILTER (WHERE direction = 'forward') / 1e6 / n AS forward_ms,
       sum(share_ns) FILTER (WHERE direction LIKE 'backward%') / 1e6 / n AS backward_ms, sum(share_ns) / 1e6 / n AS ms
FROM activities, (SELECT count(*) AS n FROM raw_steps WHERE steady) WHERE steady GROUP BY 1 ORDER BY ms DESC;

-- Which operations cost most in these steps, in which layer, and which line makes them?
SELECT label, layer, calls.direction, line, count(*) AS calls, sum(self_ns) / 1e6 AS ms
FROM calls JOIN raw_steps USING (step_id) WHERE steady GROUP BY 1, 2, 3, 4 ORDER BY ms DESC LIMIT 10;

-- Which kernels run how long, for which layer?
SELECT kernel, layer, count(*) AS launches, sum(duration_ns) / 1e6 AS ms
FROM gpu_activities WHERE kind = 'kernel' GROUP BY kernel, layer ORDER BY ms DESC;

-- Which step was slowest, and what took longer in it than in a mean one?
WITH slow AS (SELECT step_id, kind FROM raw_steps WHERE NOT warm_up ORDER BY end_ns - start_ns DESC LIMIT 1),
     usual AS (SELECT count(*) AS n FROM raw_steps JOIN slow USING (kind) WHERE steady)
SELECT activity, what, sum(share_ns) FILTER (WHERE a.step_id = slow.step_id) / 1e6 AS ms,
       sum(share_ns) FILTER (WHERE steady AND step = slow.kind) / 1e6 / n AS usual_ms
FROM activities a, slow, usual GROUP BY activity, what
ORDER BY coalesce(sum(share_ns) FILTER (WHERE a.step_id = slow.step_id), 0)
         - coalesce(sum(share_ns) FILTER (WHERE steady AND step = slow.kind), 0) / n DESC LIMIT 10;

-- How did memory grow, in each rank?
SELECT rank, time_ns / 1e9 AS s, resident_bytes / 1048576.0 AS mib
FROM raw_memory JOIN raw_processes USING (process_id) ORDER BY rank, s;
