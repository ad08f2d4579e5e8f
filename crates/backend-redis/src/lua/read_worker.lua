-- needs: workers
return answer(read_worker(call.worker))
