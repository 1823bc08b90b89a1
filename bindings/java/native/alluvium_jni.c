/* The part of liballuvium for Java 17 to 21, which call it by JNI. It needs the library and nothing else but threads. */
#include <alluvium.h>
#include <jni.h>
#include <pthread.h>

/* The functions of alluvium.h, by name. */
#define FUNCTION(name) {#name, (void *)alluvium_##name}
static const struct {
  const char *name;
  void *address;
} functions[] = {
    FUNCTION(error_kind), FUNCTION(error_kind_name), FUNCTION(error_text), FUNCTION(error_free), FUNCTION(value_data),
    FUNCTION(value_free), FUNCTION(options_create), FUNCTION(options_merge_operator), FUNCTION(options_compaction_filter),
    FUNCTION(options_free), FUNCTION(buffer_append), FUNCTION(version), FUNCTION(open), FUNCTION(open_with),
    FUNCTION(close), FUNCTION(store_free), FUNCTION(write), FUNCTION(sync), FUNCTION(checkpoint), FUNCTION(compact),
    FUNCTION(check), FUNCTION(stats), FUNCTION(keyspaces), FUNCTION(backup), FUNCTION(restore), FUNCTION(repair),
    FUNCTION(keyspace_open), FUNCTION(keyspace_existing), FUNCTION(keyspace_free), FUNCTION(keyspace_drop),
    FUNCTION(keyspace_rename), FUNCTION(approximate_count), FUNCTION(get), FUNCTION(get_into), FUNCTION(contains),
    FUNCTION(multi_get), FUNCTION(put), FUNCTION(delete), FUNCTION(take), FUNCTION(delete_range), FUNCTION(merge),
    FUNCTION(compare_and_set), FUNCTION(batch_create), FUNCTION(batch_put), FUNCTION(batch_put_page),
    FUNCTION(batch_delete), FUNCTION(batch_delete_range), FUNCTION(batch_merge), FUNCTION(batch_count),
    FUNCTION(batch_clear), FUNCTION(batch_free), FUNCTION(ingest_begin), FUNCTION(ingest_put_page), FUNCTION(ingest_finish),
    FUNCTION(ingest_free), FUNCTION(snapshot_create), FUNCTION(snapshot_open), FUNCTION(snapshot_remove),
    FUNCTION(snapshot_get), FUNCTION(snapshot_free), FUNCTION(iterator_create), FUNCTION(transaction_iterator),
    FUNCTION(iterator_page), FUNCTION(iterator_seek), FUNCTION(iterator_free), FUNCTION(transaction_begin),
    FUNCTION(transaction_get), FUNCTION(transaction_put), FUNCTION(transaction_delete), FUNCTION(transaction_delete_range),
    FUNCTION(transaction_merge), FUNCTION(transaction_depend_on_range), FUNCTION(transaction_savepoint),
    FUNCTION(transaction_rollback_to), FUNCTION(transaction_release), FUNCTION(transaction_commit),
    FUNCTION(transaction_rollback), FUNCTION(transaction_free),
};

JNIEXPORT jlong JNICALL Java_alluvium_JniBridge_symbolOf(JNIEnv *env, jclass self, jstring name) {
  (void)self;
  const char *text = (*env)->GetStringUTFChars(env, name, NULL);
  if (text == NULL) return 0;
  void *found = NULL;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (strcmp(text + sizeof "alluvium_" - 1, functions[i].name) == 0) found = functions[i].address;
  }
  if (found == NULL) (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/UnsatisfiedLinkError"), text);
  (*env)->ReleaseStringUTFChars(env, name, text);
  return (jlong)(intptr_t)found;
}

/* Parameters are pointers and integers, each in a word of its own; functions with fewer ignore the others. */
typedef jlong (*words)(jlong, jlong, jlong, jlong, jlong, jlong, jlong, jlong);

JNIEXPORT jlong JNICALL Java_alluvium_JniBridge_callWords(JNIEnv *env, jclass self, jlong function, jlong a, jlong b, jlong c,
                                                          jlong d, jlong e, jlong f, jlong g, jlong h) {
  (void)env, (void)self;
  return ((words)(intptr_t)function)(a, b, c, d, e, f, g, h);
}

JNIEXPORT jlong JNICALL Java_alluvium_JniBridge_addressOf(JNIEnv *env, jclass self, jobject buffer) {
  (void)self;
  return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

JNIEXPORT void JNICALL Java_alluvium_JniBridge_copyInto(JNIEnv *env, jclass self, jlong address, jbyteArray bytes) {
  (void)self;
  (*env)->SetByteArrayRegion(env, bytes, 0, (*env)->GetArrayLength(env, bytes), (const jbyte *)(intptr_t)address);
}

JNIEXPORT jbyteArray JNICALL Java_alluvium_JniBridge_textAt(JNIEnv *env, jclass self, jlong address) {
  (void)self;
  const char *text = (const char *)(intptr_t)address;
  jsize length = (jsize)strlen(text);
  jbyteArray bytes = (*env)->NewByteArray(env, length);
  if (bytes != NULL) (*env)->SetByteArrayRegion(env, bytes, 0, length, (const jbyte *)text);
  return bytes;
}

/* The functions that the library calls. Its threads join the machine at their first call, and leave it at their end. */
enum { MERGE, CHECK, DECIDE, FREE, CALLBACKS };
static JavaVM *machine;
static jclass callbacks;
static jmethodID methods[CALLBACKS];
static pthread_key_t joined;

static void leave(void *env) {
  (void)env;
  (*machine)->DetachCurrentThread(machine);
}

static JNIEnv *environment(void) {
  void *env = NULL;
  if ((*machine)->GetEnv(machine, &env, JNI_VERSION_1_8) == JNI_OK) return env;
  if ((*machine)->AttachCurrentThreadAsDaemon(machine, &env, NULL) != JNI_OK) return NULL;
  pthread_setspecific(joined, env);
  return env;
}

static void merge(void *context, const uint8_t *older, size_t older_length, const uint8_t *newer, size_t newer_length,
                  alluvium_buffer *result) {
  JNIEnv *env = environment();
  if (env == NULL) {
    /* The machine has no memory for another thread. */
    alluvium_buffer_append(result, newer, newer_length);
    return;
  }
  (*env)->CallStaticVoidMethod(env, callbacks, methods[MERGE], (jlong)(intptr_t)context, (jlong)(intptr_t)older,
                               (jlong)older_length, (jlong)(intptr_t)newer, (jlong)newer_length, (jlong)(intptr_t)result);
}

static int32_t check(void *context, const uint8_t *bytes, size_t length) {
  JNIEnv *env = environment();
  if (env == NULL) return 1;
  return (*env)->CallStaticIntMethod(env, callbacks, methods[CHECK], (jlong)(intptr_t)context, (jlong)(intptr_t)bytes,
                                     (jlong)length);
}

static int32_t decide(void *context, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length,
                      uint64_t expires_ms, uint64_t now_ms, alluvium_buffer *replacement) {
  JNIEnv *env = environment();
  if (env == NULL) return ALLUVIUM_FILTER_KEEP;
  return (*env)->CallStaticIntMethod(env, callbacks, methods[DECIDE], (jlong)(intptr_t)context, (jlong)(intptr_t)key,
                                     (jlong)key_length, (jlong)(intptr_t)value, (jlong)value_length, (jlong)expires_ms,
                                     (jlong)now_ms, (jlong)(intptr_t)replacement);
}

static void release(void *context) {
  JNIEnv *env = environment();
  if (env != NULL) (*env)->CallStaticVoidMethod(env, callbacks, methods[FREE], (jlong)(intptr_t)context);
}

JNIEXPORT jlong JNICALL Java_alluvium_JniBridge_callbackOf(JNIEnv *env, jclass self, jint function, jclass found) {
  (void)self;
  static const char *const names[] = {"merge", "check", "decide", "free"};
  static const char *const types[] = {"(JJJJJJ)V", "(JJJ)I", "(JJJJJJJJ)I", "(J)V"};
  void *const addresses[] = {(void *)merge, (void *)check, (void *)decide, (void *)release};
  if (function < 0 || function >= CALLBACKS) return 0;
  if (callbacks == NULL) callbacks = (*env)->NewGlobalRef(env, found);
  methods[function] = (*env)->GetStaticMethodID(env, found, names[function], types[function]);
  return methods[function] == NULL ? 0 : (jlong)(intptr_t)addresses[function];
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *loader, void *reserved) {
  (void)reserved;
  machine = loader;
  return pthread_key_create(&joined, leave) == 0 ? JNI_VERSION_1_8 : JNI_ERR;
}
