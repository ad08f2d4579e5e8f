-- needs: repairs, job_rules, step_rules, approval_rules, key_rules, budget_rules, damage_rules
return repair_all()
