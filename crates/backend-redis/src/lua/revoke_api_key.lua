-- needs: api_keys
if remove_api_key(call.id) == 0 and not is_repeat then
  return missing()
end
return answer()
