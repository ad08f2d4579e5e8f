-- needs: repairs, run_rules, limit_rules, child_rules, event_rules
return repair_all()
