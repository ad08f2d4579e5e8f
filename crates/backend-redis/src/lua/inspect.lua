-- needs: rule_pages, job_rules, step_rules, approval_rules, key_rules, budget_rules, damage_rules
return inspect_page()
