-- needs: dead_letters
add_dead_letters(call.dead_letters, call.dead_letters_max)
return answer()
