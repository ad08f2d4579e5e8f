-- needs: rule_pages, job_rules, key_rules, damage_rules
return inspect_page()
