-- needs: dead_letters
add_dead_letters(call.dead_letters)
return answer()
