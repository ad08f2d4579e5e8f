-- needs: usage
-- What a start under the admission lock reads: the tenant's live runs, and how fast their slots are released.
return answer(read_usage())
