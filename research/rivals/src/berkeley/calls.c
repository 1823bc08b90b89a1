/*
 * The calls of Berkeley DB that its adapter makes. Methods of the library are members of
 * structures with hundreds of others, so that a compiler must read its header.
 *
 * Each call returns 0, an error of the library, or one of the three numbers below, which no error
 * of the library or of the system has.
 */
#include <db.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FOUND = 1000001, TOO_SMALL = 1000002, DEADLOCK = 1000003 };

/* What was counted of the cache's pages. */
struct alluvium_berkeley_counts {
	uint64_t hits, misses, reads, writes;
};

struct alluvium_berkeley {
	DB_ENV *env;
	DB *db;
	int is_logged;
};

static int told(int code)
{
	switch (code) {
	case DB_NOTFOUND: return NOT_FOUND;
	case DB_BUFFER_SMALL: return TOO_SMALL;
	case DB_LOCK_DEADLOCK: return DEADLOCK;
	default: return code;
	}
}

static DBT given(const void *data, uint32_t bytes)
{
	DBT dbt;
	memset(&dbt, 0, sizeof dbt);
	dbt.data = (void *)data;
	dbt.size = bytes;
	return dbt;
}

/* Where a call puts something: the first `bytes` of it are there already. */
static DBT wanted(void *data, uint32_t bytes, uint32_t space)
{
	DBT dbt = given(data, bytes);
	dbt.ulen = space;
	dbt.flags = DB_DBT_USERMEM;
	return dbt;
}

const char *alluvium_berkeley_error(int code)
{
	return db_strerror(code);
}

const char *alluvium_berkeley_version(void)
{
	return db_version(NULL, NULL, NULL);
}

int alluvium_berkeley_close(struct alluvium_berkeley *store)
{
	int code = 0, other;
	if (store->db != NULL)
		code = store->db->close(store->db, 0);
	if (store->env != NULL && (other = store->env->close(store->env, 0)) != 0 && code == 0)
		code = other;
	free(store);
	return code;
}

/* A log that is written at each commit and synced at none; locks, since threads share pages. */
static int with_log(DB_ENV *env)
{
	int code;
	if ((code = env->set_flags(env, DB_TXN_WRITE_NOSYNC, 1)) != 0 ||
	    (code = env->set_lk_detect(env, DB_LOCK_DEFAULT)) != 0 ||
	    (code = env->set_lg_bsize(env, 4 << 20)) != 0 ||
	    (code = env->set_lg_max(env, 64 << 20)) != 0)
		return code;
	return env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1);
}

static int opened(struct alluvium_berkeley *store, const char *directory, uint32_t page_bytes,
    uint64_t cache_bytes)
{
	uint32_t flags = DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_MPOOL;
	int code;
	if ((code = db_env_create(&store->env, 0)) != 0) {
		store->env = NULL;
		return code;
	}
	if ((code = store->env->set_cachesize(store->env, (uint32_t)(cache_bytes >> 30),
	    (uint32_t)(cache_bytes & 0x3fffffff), 1)) != 0)
		return code;
	if (store->is_logged) {
		if ((code = with_log(store->env)) != 0)
			return code;
		flags |= DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN | DB_RECOVER;
	} else
		flags |= DB_INIT_CDB;
	if ((code = store->env->open(store->env, directory, flags, 0644)) != 0)
		return code;
	if ((code = db_create(&store->db, store->env, 0)) != 0) {
		store->db = NULL;
		return code;
	}
	if ((code = store->db->set_pagesize(store->db, page_bytes)) != 0)
		return code;
	flags = DB_CREATE | DB_THREAD | (store->is_logged ? DB_AUTO_COMMIT : 0);
	return store->db->open(store->db, NULL, "pairs.db", NULL, DB_BTREE, flags, 0644);
}

int alluvium_berkeley_open(struct alluvium_berkeley **out, const char *directory,
    uint32_t page_bytes, uint64_t cache_bytes, int is_logged)
{
	struct alluvium_berkeley *store = calloc(1, sizeof *store);
	int code;
	*out = NULL;
	if (store == NULL)
		return ENOMEM;
	store->is_logged = is_logged;
	if ((code = opened(store, directory, page_bytes, cache_bytes)) != 0) {
		(void)alluvium_berkeley_close(store);
		return code;
	}
	*out = store;
	return 0;
}

int alluvium_berkeley_put(struct alluvium_berkeley *store, const void *key, uint32_t key_bytes,
    const void *value, uint32_t value_bytes)
{
	DBT k = given(key, key_bytes), v = given(value, value_bytes);
	int code;
	do
		code = store->db->put(store->db, NULL, &k, &v, 0);
	while (code == DB_LOCK_DEADLOCK);
	return told(code);
}

int alluvium_berkeley_delete(struct alluvium_berkeley *store, const void *key, uint32_t key_bytes)
{
	DBT k = given(key, key_bytes);
	int code;
	do
		code = store->db->del(store->db, NULL, &k, 0);
	while (code == DB_LOCK_DEADLOCK);
	return told(code);
}

/* `value_bytes` says how many bytes there are, also where they do not fit. */
int alluvium_berkeley_get(struct alluvium_berkeley *store, const void *key, uint32_t key_bytes,
    void *value, uint32_t space, uint32_t *value_bytes)
{
	DBT k = given(key, key_bytes), v = wanted(value, 0, space);
	int code;
	do
		code = store->db->get(store->db, NULL, &k, &v, 0);
	while (code == DB_LOCK_DEADLOCK);
	*value_bytes = v.size;
	return told(code);
}

int alluvium_berkeley_cursor(struct alluvium_berkeley *store, DBC **out)
{
	return told(store->db->cursor(store->db, NULL, out, 0));
}

int alluvium_berkeley_cursor_close(DBC *cursor)
{
	return told(cursor->close(cursor));
}

/*
 * Moves to the next pair; where `is_first` is not 0, to the first one from the key on that is in
 * the buffer.
 */
int alluvium_berkeley_cursor_get(DBC *cursor, int is_first, void *key, uint32_t key_space,
    uint32_t *key_bytes, void *value, uint32_t value_space, uint32_t *value_bytes)
{
	DBT k = wanted(key, is_first ? *key_bytes : 0, key_space), v = wanted(value, 0, value_space);
	int code = cursor->get(cursor, &k, &v, is_first ? DB_SET_RANGE : DB_NEXT);
	*key_bytes = k.size;
	*value_bytes = v.size;
	return told(code);
}

/* Writes dirty pages, if the log has grown by as much since they were written before. */
int alluvium_berkeley_checkpoint(struct alluvium_berkeley *store, uint32_t log_kib)
{
	if (store->is_logged)
		return told(store->env->txn_checkpoint(store->env, log_kib, 0, log_kib == 0 ? DB_FORCE : 0));
	return told(store->db->sync(store->db, 0));
}

int alluvium_berkeley_count(struct alluvium_berkeley *store, struct alluvium_berkeley_counts *out)
{
	DB_MPOOL_STAT *stat = NULL;
	int code = store->env->memp_stat(store->env, &stat, NULL, 0);
	if (code != 0)
		return told(code);
	out->hits = stat->st_cache_hit;
	out->misses = stat->st_cache_miss;
	out->reads = stat->st_page_in;
	out->writes = stat->st_page_out;
	free(stat);
	return 0;
}
