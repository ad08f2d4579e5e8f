bury()
return { 'ok' }
