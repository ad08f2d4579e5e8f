"""Hooks of Schemathesis: valid cases get what exists, along the links of the OpenAPI document.

Random ids and fences name nothing. So before about half of the valid cases of an operation, the hooks send the requests
that lead to it by a link of the document, and put into the case what the link says. If a link is missing or wrong, the
operation stays out of reach. The other half, and all invalid data, is sent as Schemathesis makes it.
"""

import atexit
import itertools
import json
import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import requests
import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import TestPhase

BASE: str = os.environ["INTERLOCK_OPENAPI_BASE"]
FIGURES: str = os.environ["INTERLOCK_OPENAPI_FIGURES"]
LIMIT_SECONDS = 60

session = requests.Session()
session.headers["X-API-Key"] = os.environ["INTERLOCK_API_KEY"]
numbers = itertools.count()

# Random names of topics would never meet.
TOPIC = "fuzzed"
SCOPE = {"scope": "lock_busy"}
STEPS = {
    "work": {"type": "worker", "topic": TOPIC, "input": {"given": "${input}"}},
    "ask": {"type": "approval"},
    "hear": {"type": "wait_event", "event": {"name": "hook"}},
}


# Not more than a tenant, and the system, may have.
LIMITS = {"named_limits_put": 20, "system_limits_put": 10}


def given(name: str) -> tuple[dict[str, str], Any]:
    """The names and the body of a request that starts a chain of links, or that only fits together as a whole."""
    number = next(numbers)
    match name:
        case "workflows_create":
            # Not the same twice in one chain, which may delete it; and not more than a tenant may have.
            workflow = f"hook-{number % 500}"
            # An earlier case may have paused it.
            ask("POST", f"/api/v1/workflows/{workflow}/resume")
            return {}, {"id": workflow, "name": "hook", "steps": STEPS}
        case "runs_start" | "runs_rerun":
            return {}, {}
        case "events_send":
            return {}, {"name": "hook", "data": number}
        case "workers_claim":
            # A worker of its own: another may have been drained.
            return {"worker": f"hook-{number}"}, {"topics": [TOPIC], "max_jobs": 1, "lease_ms": 60_000}
        case "locks_acquire":
            return {}, {"resource": f"hook-{number}", "owner": "hook", "ttl_ms": 60_000}
        case "budgets_put":
            # Not more than a tenant may have.
            return {"name": f"hook-{number % 50}"}, {"unit": "usd", "amount": "1000000", "per": "day"}
        case "budgets_reserve":
            return {}, {"amount": "0.01", "ttl_ms": 60_000, "request_id": f"hook-{number}"}
        case "budgets_renew":
            return {}, {"ttl_ms": 60_000}
        case "budgets_settle":
            return {}, {"amount": "0.02"}
        case "budgets_release":
            return {}, {}
        case "budgets_adjust":
            return {}, {"delta": "1", "reason": "hook"}
        case "keys_create":
            return {}, {"name": "hook", "role": "viewer", "tenant": "elsewhere"}
        case "named_limits_put" | "system_limits_put":
            # For a workflow that no case starts: it must not keep other cases from starting.
            name = f"hook-{number % LIMITS[name]}"
            return {"name": name}, {"max_runs": 5, "applies_to": {"workflows": [f"{name}-elsewhere"]}}
        case "runs_move_queued":
            return {"id": queued_run()}, {"to": "front"}
        case "retry_policies_set":
            end_rollouts()
            return SCOPE, {"policy": f"fixed:{number}ms"}
        case "rollouts_start":
            # The candidate must differ from what is in force.
            end_rollouts()
            return {}, {"candidate": f"bounded_jitter:{number}ms:30%", "share_percent": 50}
        case _:
            return {}, None


def end_rollouts() -> None:
    """Only one can be under way, and no policy changes meanwhile."""
    for rollout in ask("GET", "/api/v1/rollouts").json()["items"]:
        ask("POST", f"/api/v1/rollouts/{rollout['id']}/abort")


def queued_run() -> str:
    """A run that waits for a limit."""
    ask("POST", "/api/v1/workflows", body={"id": "hook-queued", "name": "hook", "steps": STEPS})
    limit = {"applies_to": {"workflows": ["hook-queued"]}, "max_runs": 0, "on_full": "queue"}
    ask("PUT", "/api/v1/limits/hook-queued", body=limit)
    return ask("POST", "/api/v1/workflows/hook-queued/runs", body={}).json()["run_id"]


def ask(method: str, path: str, query: Any = None, body: Any = None) -> requests.Response:
    return session.request(method, BASE + path, params=query, json=body, timeout=LIMIT_SECONDS)


@dataclass
class Link:
    """From the success of one operation to another."""

    source: str
    target: str
    parameters: dict[str, str]
    members: dict[str, str]

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass
class Operation:
    method: str
    path: str
    # Where each parameter is: in the path, the query or a header.
    places: dict[str, str]


operations: dict[str, Operation] = {}
links: defaultdict[str, list[Link]] = defaultdict(list)


def read_document() -> None:
    for path, item in ask("GET", "/openapi.json").json()["paths"].items():
        for method, operation in item.items():
            name = operation["operationId"]
            places = {parameter["name"]: parameter["in"] for parameter in operation.get("parameters", [])}
            operations[name] = Operation(method.upper(), path, places)
            for answer in operation["responses"].values():
                for link in answer.get("links", {}).values():
                    target = link["operationId"]
                    members = link.get("requestBody", {})
                    links[target].append(Link(name, target, link.get("parameters", {}), members))
    for leading in links.values():
        # First those from what creates something: `send` takes the first, and a list may be empty.
        leading.sort(key=lambda link: operations[link.source].method == "GET")


@dataclass
class Linked:
    """What a request contains because of a link."""

    path: dict[str, Any]
    query: dict[str, Any]
    members: dict[str, Any]


class Unresolved(Exception):
    """The answer has not what the link takes from it, or not yet."""


def value_of(expression: str, path: dict[str, Any], answer: Any) -> Any:
    if expression.startswith("$request.path."):
        return path[expression.removeprefix("$request.path.")]
    value = answer
    try:
        for member in expression.removeprefix("$response.body#/").split("/"):
            value = value[int(member) if isinstance(value, list) else member]
    except (IndexError, KeyError, TypeError) as error:
        raise Unresolved(f"{expression} in {answer}") from error
    return value


def follow(link: Link) -> Linked:
    """Sends the requests that lead to the link. Repeats them until the answer has what it takes: the engine works."""
    limit = time.monotonic() + LIMIT_SECONDS
    while True:
        path, answer = send(link.source)
        try:
            found = {name: value_of(text, path, answer) for name, text in link.parameters.items()}
            members = {name: value_of(text, path, answer) for name, text in link.members.items()}
        except Unresolved:
            if time.monotonic() > limit:
                raise
            continue
        places = operations[link.target].places
        return Linked(
            {name: value for name, value in found.items() if places[name] == "path"},
            {name: value for name, value in found.items() if places[name] == "query"},
            members,
        )


def send(name: str) -> tuple[dict[str, Any], Any]:
    """Sends a valid request of this operation, by its first link, and returns the names in its path and the answer."""
    operation = operations[name]
    path, body = given(name)
    query: dict[str, Any] = {}
    if links[name]:
        linked = follow(links[name][0])
        path, query = {**path, **linked.path}, linked.query
        body = {**(body or {}), **linked.members} or body
    answer = ask(operation.method, operation.path.format(**path), query, body)
    assert answer.ok, f"{name}: {answer.status_code} {answer.text}"
    return path, answer.json() if answer.content else None


def supply(case: Case, name: str, link: Link | None) -> None:
    """Puts what exists into the case."""
    path, body = given(name)
    linked = follow(link) if link else Linked({}, {}, {})
    if path or linked.path:
        case.path_parameters = {**(case.path_parameters or {}), **path, **linked.path}
    if linked.query:
        case.query = linked.query
    if body is not None:
        case.body = body
    if linked.members:
        case.body = {**(case.body if isinstance(case.body, dict) else {}), **linked.members}
    if case.headers and "Idempotency-Key" in case.headers:
        # Used before, it would name another request.
        case.headers["Idempotency-Key"] = f"hook-{next(numbers)}"


def keep_going(case: Case, name: str) -> None:
    """Changes what would make the rest of the run wait, or leave it nothing to do."""
    if name == "history_stream":
        # The stream of a live run lasts as long as it.
        run = str((case.path_parameters or {}).get("id"))
        if all(character in "0123456789abcdef-" for character in run):
            ask("POST", f"/api/v1/workflow-runs/{run}/cancel")
    if name == "runs_get" and case.query and is_valid(case) and "wait_ms" in case.query:
        case.query["wait_ms"] = 0
    if not is_valid(case) or not isinstance(case.body, dict):
        return
    if name in ("workers_claim", "locks_acquire"):
        case.body["wait_ms"] = 0
    if name in ("dead_letters_delete_many", "dead_letters_retry_many"):
        case.body["limit"] = 1
    if name in LIMITS:
        limit = f"hook-{next(numbers) % LIMITS[name]}"
        case.path_parameters = {**(case.path_parameters or {}), "name": limit}
        case.body["applies_to"] = {"workflows": [f"{limit}-elsewhere"]}
    if name == "limits_put":
        case.body.update(scope="org", scope_id="elsewhere")


calls: Counter[str] = Counter()
answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
followed: Counter[str] = Counter()
undocumented: Counter[str] = Counter()
# The link that the case in progress comes from.
current: Link | None = None


def name_of(case: Case) -> str:
    return str(case.operation.definition.raw["operationId"])


def has_succeeded(name: str) -> bool:
    return any(200 <= status < 300 for status in answers[name])


def is_valid(case: Case) -> bool:
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    global current
    current = None
    name = name_of(case)
    if is_valid(case):
        calls[name] += 1
        # Until each has led to a success, and then half of the time.
        untried = [link for link in links[name] if not followed[str(link)]]
        if untried or not has_succeeded(name) or calls[name] % 2 == 1:
            choice = untried or links[name]
            # In a chain of links that Schemathesis follows itself, its own data counts.
            is_in_chain = case.meta.phase.name == TestPhase.STATEFUL
            current = choice[calls[name] % len(choice)] if choice and not is_in_chain else None
            supply(case, name, current)
    keep_going(case, name)


@schemathesis.hook
def after_call(context: HookContext, case: Case, response: Response) -> None:
    name, status = name_of(case), response.status_code
    answers[name][status] += 1
    if current is not None and 200 <= status < 300:
        followed[str(current)] += 1
    # Another method than the documented one is another request.
    if case.method.upper() == operations[name].method and str(status) not in case.operation.definition.raw["responses"]:
        undocumented[f"{name} {status}"] += 1


@atexit.register
def write_figures() -> None:
    known = [str(link) for leading in links.values() for link in leading]
    figures = {
        "answers": {name: answers[name] for name in operations},
        "links": {link: followed[link] for link in known},
        "undocumented": undocumented,
    }
    with open(FIGURES, "w", encoding="utf-8") as file:
        json.dump(figures, file)


read_document()
# Cases leave more live runs behind than a tenant may have by default.
limits = {"scope": "org", "data": {"limits": {"max_concurrent_runs": 100_000}}}
assert ask("PUT", "/api/v1/config", body=limits).ok
