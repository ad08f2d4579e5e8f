-- needs: usage
return answer(read_usage().usage)
