-- needs: repairs, lock_rules
return repair_all()
