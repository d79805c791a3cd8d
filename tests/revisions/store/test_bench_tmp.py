import time
from datetime import timedelta
from tests.rows import Rows, new_run
from revisions.store import runs, claims
L=timedelta(seconds=60)
def timed(database, limit, by="w"):
    t=time.perf_counter()
    with database.write() as c:
        runs.lock_queue(c); now=database.clock.now(c)
        got=claims.claim(c, now, claimed_by=by, lease=L, limit=limit, max_running=10**9)
    return time.perf_counter()-t, got
def ana(database):
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c: c.exec_driver_sql("ANALYZE")
def test_b(database):
    rows=Rows(database); rows.task()
    now=rows.now
    ts=[rows.trigger(f"t{i}") for i in range(100)]
    with database.write() as c:
        for k in range(10): runs.create(c,[new_run(ts[i%100], now) for i in range(2000)])
    ana(database)
    name="sqlite" if database.is_sqlite else "pg"
    for limit in (1,20,100,500,1000):
        timed(database,limit)
        tot=0;n=0
        for _ in range(5):
            d,g=timed(database,limit); tot+=d;n+=len(g)
        print("CLAIM", name, "batch",limit, f"{n/tot:.0f}/s", f"{tot/5*1000:.2f} ms")
    with database.write() as c:
        r=[x.run for x in g]
        t=time.perf_counter(); claims.renew(c,r,now,L)
        print("RENEW 1000", f"{(time.perf_counter()-t)*1000:.1f} ms")
    q=rows.trigger("queued")
    with database.write() as c:
        c.exec_driver_sql("DELETE FROM runs")
    for total in (10_000,50_000):
        with database.write() as c:
            for k in range(total//2000): runs.create(c,[new_run(q, now, overlap="queue_all", scheduled_at=now+timedelta(seconds=k*2000+i)) for i in range(2000)])
        ana(database)
        d,g=timed(database,20); d2,g2=timed(database,20)
        print("QUEUED", name, total, f"first {d*1000:.0f} ms ({len(g)}), blocked {d2*1000:.0f} ms ({len(g2)})")
