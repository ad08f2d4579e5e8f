-- What a start under the admission lock looks at: the tenant's live runs, and how fast their slots come free.
local gate = read_gate(argument())
return { 'ok', integer(gate.active), integer(gate.max), gate.freed_at, gate.interval_ms }
