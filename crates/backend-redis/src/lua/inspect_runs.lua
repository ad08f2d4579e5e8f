-- needs: rule_pages, run_rules, limit_rules, child_rules, event_rules
return inspect_page()
