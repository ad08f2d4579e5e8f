//! Wire types and error codes; feature client: typed client and worker loop
