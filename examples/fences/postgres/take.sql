-- Claims a row for a holder and reads its version, in one step. From now on, every smaller fence is rejected.
-- If no row is returned, the fence is stale.
INSERT INTO reports AS kept (item, fence) VALUES (:'item', :'fence')
    ON CONFLICT (item) DO UPDATE SET fence = excluded.fence
    WHERE excluded.fence >= kept.fence
    RETURNING version;
