-- needs: repairs, run_rules, limit_rules
return repair_all()
