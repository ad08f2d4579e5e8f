-- needs: snapshot
return answer(redis.call('GET', snapshot_key()))
