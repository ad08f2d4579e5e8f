"""A worker on the public SDK (cap-sdk-python): its topic, its name and what it does, and nothing else."""

import asyncio
import sys

from cap.runtime import Agent

topic, worker_id = sys.argv[1:3]

# NATS_URL and REDIS_URL say where to connect.
agent = Agent(worker_id=worker_id, max_parallel=2, heartbeat_interval=0.2, retries=0)


@agent.job(topic)
async def work(context, data):
    attempt = int(context.job.labels["attempt"])
    if data.get("fails") and attempt == 1:
        raise RuntimeError("not yet")
    # Long enough for the test to pause this process.
    await asyncio.sleep(data.get("seconds", 0) if worker_id == "first" else 0)
    return {"doubled": data["number"] * 2, "by": worker_id, "attempt": attempt}


asyncio.run(agent.run())
