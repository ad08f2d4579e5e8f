-- Writes a row, unless a later holder has claimed it or it has changed since this holder read it.
-- If no row is returned, the fence or the version is stale.
UPDATE reports
    SET body = :'body', fence = :'fence', version = version + 1
    WHERE item = :'item'
    AND :'fence' >= fence
    AND :'version' = version
    RETURNING version;
