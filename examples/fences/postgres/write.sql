-- Writes a row, if nobody later has taken it and it still is as the holder read it.
-- No row comes back: the fence is stale, or the version is.
UPDATE reports
    SET body = :'body', fence = :'fence', version = version + 1
    WHERE item = :'item'
    AND :'fence' >= fence
    AND :'version' = version
    RETURNING version;
