-- needs: rule_pages, lock_rules
return inspect_page()
