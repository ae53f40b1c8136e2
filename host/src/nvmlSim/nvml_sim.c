/*
 * A stand-in for libnvidia-ml.so.1: the functions that Berth calls, for GPUs that a text file describes. It lets a
 * machine without a GPU run the same native calls, structs and error codes as one with GPUs.
 *
 * The file is named by nvmlSimDescribe() or by the environment variable NVML_SIM_FILE, and is read again whenever it
 * changed; replace it by rename, so that no half-written file is seen. One word, then its values, on each line:
 *
 *   driver VERSION           what nvmlSystemGetDriverVersion says
 *   cuda NUMBER              1000 * major + 10 * minor
 *   init CODE                nvmlInit returns this error
 *   hang                     every call blocks until this line is gone
 *   gpu UUID                 begins a GPU; the first has index 0. The lines below belong to it:
 *     name TEXT
 *     bus DOMAIN:BUS:DEVICE.FUNCTION
 *     memory TOTAL USED      MiB
 *     utilization GPU MEMORY percent
 *     temperature CELSIUS
 *     power MILLIWATTS LIMIT
 *     ecc CORRECTED UNCORRECTED
 *     mig 0|1
 *     processes              it can list processes; implied by a process line
 *     process PID MIB        MIB may be '-': the driver does not tell
 *     status CODE            every query of this GPU returns this error, such as 15 (lost)
 *     recovery_action NUMBER what the driver says that the GPU needs: 0 nothing, 1 reset, 2 reboot, 3 drain P2P,
 *                            4 drain and reset
 *     xid NUMBER CODE        the NUMBERth critical error; each NUMBER is reported once, in ascending order
 *     nvlink INDEX COUNT     links to another GPU; stands with both of them
 *     nvswitch COUNT         links to a switch, through which it reaches every GPU that has such links
 *     pcie INDEX LEVEL       topology level to another GPU (0, 10, 20, 30, 40, 50); with either of them
 *
 * What a GPU has no line for, it does not support. '#' begins a comment line.
 *
 * NVML_SIM_GENERATION (1, 2 or 3) leaves out the symbols that drivers of that age do not have.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef NVML_SIM_GENERATION
#define NVML_SIM_GENERATION 3
#endif

#define API __attribute__((visibility("default")))

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10
};

enum { FIELD_RECOVERY_ACTION = 230, TYPE_UNSIGNED_INT = 1 };

enum { MAX_GPUS = 64, MAX_PROCESSES = 256, TEXT = 96, EVENT_XID = 8, LINKS = 18, REMOTE_GPU = 0, REMOTE_SWITCH = 2 };

typedef unsigned long long u64;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} PciInfo;
typedef struct {
    char busId[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId, reserved[4];
} PciInfoV2;
typedef struct { u64 total, free, used; } MemoryInfo;
typedef struct { unsigned version; u64 total, reserved, free, used; } MemoryInfoV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; u64 usedGpuMemory; } ProcessInfoV1;
typedef struct { unsigned pid; u64 usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } ProcessInfo;
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType, nvmlReturn;
    union { double dVal; int siVal; unsigned uiVal; unsigned long ulVal; u64 ullVal; long long sllVal; unsigned short usVal; } value;
} FieldValue;
typedef struct { void *device; u64 eventType, eventData; unsigned gpuInstanceId, computeInstanceId; } EventData;

_Static_assert(sizeof(PciInfo) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(MemoryInfo) == 24, "nvmlMemory_t");
_Static_assert(sizeof(MemoryInfoV2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(Utilization) == 8, "nvmlUtilization_t");
_Static_assert(sizeof(ProcessInfoV1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(ProcessInfo) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(FieldValue) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(EventData) == 32, "nvmlEventData_t");

typedef struct {
    char uuid[TEXT], name[TEXT], bus[TEXT];
    int has_memory, has_utilization, has_temperature, has_power, has_ecc, has_mig, has_processes, has_recovery_action;
    u64 memory_total, memory_used, ecc[2];
    unsigned utilization[2], temperature, power, power_limit, mig, process_count, nvswitch;
    ProcessInfo process[MAX_PROCESSES];
    int status;
    unsigned xid_number, xid_code, recovery_action;
    unsigned nvlink[MAX_GPUS];
    int pcie[MAX_GPUS]; /* -1: not told */
} Gpu;

typedef struct {
    char driver[TEXT];
    int cuda, init, hang;
    unsigned gpu_count;
    Gpu gpu[MAX_GPUS];
} Host;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char path[4096];
static struct stat last_read;
static Host host;
static int initialized;
static unsigned reported_xid[MAX_GPUS];
static int registered[MAX_GPUS]; /* whether errors of GPU i are asked for */
static char handles[MAX_GPUS]; /* the address of handles[i] is the handle of GPU i */

static u64 mib(const char *text) { return strcmp(text, "-") == 0 ? ~0ULL : strtoull(text, NULL, 10) << 20; }

static void parse_line(Host *h, char *line) {
    char *key = strtok(line, " \t\r\n");
    if (key == NULL || key[0] == '#') {
        return;
    }
    char *rest = strtok(NULL, "\r\n");
    char a[TEXT] = "0", b[TEXT] = "0";
    if (rest != NULL) {
        sscanf(rest, "%95s %95s", a, b);
    }
    unsigned first = (unsigned)strtoul(a, NULL, 10), second = (unsigned)strtoul(b, NULL, 10);
    if (strcmp(key, "driver") == 0) {
        snprintf(h->driver, TEXT, "%s", a);
    } else if (strcmp(key, "cuda") == 0) {
        h->cuda = (int)first;
    } else if (strcmp(key, "init") == 0) {
        h->init = (int)first;
    } else if (strcmp(key, "hang") == 0) {
        h->hang = 1;
    } else if (strcmp(key, "gpu") == 0 && h->gpu_count < MAX_GPUS) {
        Gpu *g = &h->gpu[h->gpu_count++];
        snprintf(g->uuid, TEXT, "%s", a);
        for (int i = 0; i < MAX_GPUS; i++) {
            g->pcie[i] = -1;
        }
    }
    if (h->gpu_count == 0) {
        return;
    }
    Gpu *g = &h->gpu[h->gpu_count - 1];
    if (strcmp(key, "name") == 0 && rest != NULL) {
        snprintf(g->name, TEXT, "%s", rest);
    } else if (strcmp(key, "bus") == 0) {
        snprintf(g->bus, TEXT, "%s", a);
    } else if (strcmp(key, "memory") == 0) {
        g->has_memory = 1, g->memory_total = mib(a), g->memory_used = mib(b);
    } else if (strcmp(key, "utilization") == 0) {
        g->has_utilization = 1, g->utilization[0] = first, g->utilization[1] = second;
    } else if (strcmp(key, "temperature") == 0) {
        g->has_temperature = 1, g->temperature = first;
    } else if (strcmp(key, "power") == 0) {
        g->has_power = 1, g->power = first, g->power_limit = second;
    } else if (strcmp(key, "ecc") == 0) {
        g->has_ecc = 1, g->ecc[0] = first, g->ecc[1] = second;
    } else if (strcmp(key, "mig") == 0) {
        g->has_mig = 1, g->mig = first;
    } else if (strcmp(key, "processes") == 0) {
        g->has_processes = 1;
    } else if (strcmp(key, "process") == 0 && g->process_count < MAX_PROCESSES) {
        g->has_processes = 1;
        ProcessInfo *p = &g->process[g->process_count++];
        p->pid = first, p->usedGpuMemory = mib(b), p->gpuInstanceId = p->computeInstanceId = ~0u;
    } else if (strcmp(key, "status") == 0) {
        g->status = (int)first;
    } else if (strcmp(key, "recovery_action") == 0) {
        g->has_recovery_action = 1, g->recovery_action = first;
    } else if (strcmp(key, "xid") == 0 && first > g->xid_number) {
        g->xid_number = first, g->xid_code = second;
    } else if (strcmp(key, "nvswitch") == 0) {
        g->nvswitch = first;
    } else if (strcmp(key, "nvlink") == 0 && first < MAX_GPUS) {
        g->nvlink[first] = second;
    } else if (strcmp(key, "pcie") == 0 && first < MAX_GPUS) {
        g->pcie[first] = (int)second;
    }
}

/* Reads the file if it changed. Without a file there is no driver. */
static void refresh(void) {
    if (path[0] == 0 && getenv("NVML_SIM_FILE") != NULL) {
        snprintf(path, sizeof path, "%s", getenv("NVML_SIM_FILE"));
    }
    struct stat now;
    if (path[0] == 0 || stat(path, &now) != 0) {
        memset(&host, 0, sizeof host);
        memset(&last_read, 0, sizeof last_read);
        host.init = DRIVER_NOT_LOADED;
        return;
    }
    if (now.st_ino == last_read.st_ino && now.st_size == last_read.st_size &&
        now.st_mtim.tv_sec == last_read.st_mtim.tv_sec && now.st_mtim.tv_nsec == last_read.st_mtim.tv_nsec) {
        return;
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return;
    }
    memset(&host, 0, sizeof host);
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        parse_line(&host, line);
    }
    fclose(file);
    last_read = now;
}

/* Enters a call with the newest description, after any hang is over. Every enter() is followed by a leave(). */
static void enter(void) {
    pthread_mutex_lock(&lock);
    refresh();
    while (host.hang) {
        pthread_mutex_unlock(&lock);
        usleep(5000);
        pthread_mutex_lock(&lock);
        refresh();
    }
}

static int leave(int result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* The GPU behind a handle, or NULL with *error set. Call between enter() and leave(). */
static Gpu *find(void *device, int *error) {
    long index = (char *)device - handles;
    if (!initialized) {
        *error = UNINITIALIZED;
    } else if (index < 0 || index >= (long)host.gpu_count) {
        *error = INVALID_ARGUMENT;
    } else if (host.gpu[index].status != 0) {
        *error = host.gpu[index].status;
    } else {
        *error = SUCCESS;
        return &host.gpu[index];
    }
    return NULL;
}

/* The body of a query: leaves with the GPU's error, or NOT_SUPPORTED without `has`, or does `work`. */
#define QUERY(device, has, work)                \
    enter();                                    \
    int error;                                  \
    Gpu *g = find(device, &error);              \
    if (g == NULL) {                            \
        return leave(error);                    \
    }                                           \
    if (!(has)) {                               \
        return leave(NOT_SUPPORTED);            \
    }                                           \
    work;                                       \
    return leave(SUCCESS)

static int copy_text(char *to, unsigned length, const char *from) {
    if (strlen(from) + 1 > length) {
        return INSUFFICIENT_SIZE;
    }
    strcpy(to, from);
    return SUCCESS;
}

/* Names the file that describes the GPUs. Not a function of NVML. */
API void nvmlSimDescribe(const char *file) {
    pthread_mutex_lock(&lock);
    snprintf(path, sizeof path, "%s", file);
    memset(&last_read, 0, sizeof last_read);
    pthread_mutex_unlock(&lock);
}

static int init(void) {
    enter();
    if (host.init == SUCCESS) {
        initialized = 1;
    }
    return leave(host.init);
}

#if NVML_SIM_GENERATION >= 2
API int nvmlInit_v2(void) { return init(); }
#endif
API int nvmlInit(void) { return init(); }

API int nvmlShutdown(void) {
    enter();
    int result = initialized ? SUCCESS : UNINITIALIZED;
    initialized = 0;
    return leave(result);
}

API const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    default: return "Unknown Error";
    }
}

API int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    enter();
    return leave(!initialized ? UNINITIALIZED : host.driver[0] == 0 ? NOT_SUPPORTED : copy_text(version, length, host.driver));
}

static int cuda_version(int *version) {
    enter();
    *version = host.cuda;
    return leave(host.cuda == 0 ? NOT_SUPPORTED : SUCCESS);
}

#if NVML_SIM_GENERATION >= 2
API int nvmlSystemGetCudaDriverVersion_v2(int *version) { return cuda_version(version); }
#endif
API int nvmlSystemGetCudaDriverVersion(int *version) { return cuda_version(version); }

static int device_count(unsigned *count) {
    enter();
    *count = host.gpu_count;
    return leave(initialized ? SUCCESS : UNINITIALIZED);
}

static int handle_by_index(unsigned index, void **device) {
    enter();
    if (!initialized) {
        return leave(UNINITIALIZED);
    }
    if (index >= host.gpu_count) {
        return leave(INVALID_ARGUMENT);
    }
    *device = &handles[index];
    return leave(host.gpu[index].status);
}

#if NVML_SIM_GENERATION >= 2
API int nvmlDeviceGetCount_v2(unsigned *count) { return device_count(count); }
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return handle_by_index(index, device); }
#endif
API int nvmlDeviceGetCount(unsigned *count) { return device_count(count); }
API int nvmlDeviceGetHandleByIndex(unsigned index, void **device) { return handle_by_index(index, device); }

API int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    QUERY(device, 1, error = copy_text(uuid, length, g->uuid); if (error) { return leave(error); });
}

API int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    QUERY(device, g->name[0], error = copy_text(name, length, g->name); if (error) { return leave(error); });
}

/* The new structure has the bus id in a long form at its end, the old ones a short form at their beginning. */
static void fill_pci(PciInfo *pci, const char *bus) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "%s", bus);
    size_t length = strlen(bus);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", length > 12 ? bus + length - 12 : bus);
}

static void fill_pci_v2(PciInfoV2 *pci, const char *bus) {
    PciInfo both;
    fill_pci(&both, bus);
    memset(pci, 0, sizeof *pci);
    memcpy(pci->busId, both.busIdLegacy, sizeof pci->busId);
}

#if NVML_SIM_GENERATION >= 3
API int nvmlDeviceGetPciInfo_v3(void *device, PciInfo *pci) { QUERY(device, g->bus[0], fill_pci(pci, g->bus)); }
#endif
#if NVML_SIM_GENERATION >= 2
API int nvmlDeviceGetPciInfo_v2(void *device, PciInfoV2 *pci) { QUERY(device, g->bus[0], fill_pci_v2(pci, g->bus)); }
#endif
API int nvmlDeviceGetPciInfo(void *device, PciInfoV2 *pci) { QUERY(device, g->bus[0], fill_pci_v2(pci, g->bus)); }

API int nvmlDeviceGetMemoryInfo(void *device, MemoryInfo *memory) {
    QUERY(device, g->has_memory, memory->total = g->memory_total; memory->used = g->memory_used;
          memory->free = g->memory_total - g->memory_used);
}

#if NVML_SIM_GENERATION >= 2
API int nvmlDeviceGetMemoryInfo_v2(void *device, MemoryInfoV2 *memory) {
    if (memory->version != (sizeof *memory | 2u << 24)) {
        return INVALID_ARGUMENT;
    }
    QUERY(device, g->has_memory, memory->total = g->memory_total; memory->used = g->memory_used; memory->reserved = 0;
          memory->free = g->memory_total - g->memory_used);
}
#endif

API int nvmlDeviceGetUtilizationRates(void *device, Utilization *rates) {
    QUERY(device, g->has_utilization, rates->gpu = g->utilization[0]; rates->memory = g->utilization[1]);
}

API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    if (sensor != 0) {
        return INVALID_ARGUMENT;
    }
    QUERY(device, g->has_temperature, *celsius = g->temperature);
}

API int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    QUERY(device, g->has_power, *milliwatts = g->power);
}

API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) {
    QUERY(device, g->has_power, *milliwatts = g->power_limit);
}

API int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, u64 *count) {
    if (type < 0 || type > 1 || counter != 0) {
        return INVALID_ARGUMENT;
    }
    QUERY(device, g->has_ecc, *count = g->ecc[type]);
}

#if NVML_SIM_GENERATION >= 2
API int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    QUERY(device, g->has_mig, *current = *pending = g->mig);
}
#endif

/* What a driver of that age knows of field values: nothing, none of our fields, all of them. */
#if NVML_SIM_GENERATION >= 2
API int nvmlDeviceGetFieldValues(void *device, int count, FieldValue *values) {
    if (count < 1 || values == NULL) {
        return INVALID_ARGUMENT;
    }
    QUERY(device, 1, for (int i = 0; i < count; i++) {
        FieldValue *v = &values[i];
        int known = NVML_SIM_GENERATION >= 3 && v->fieldId == FIELD_RECOVERY_ACTION && g->has_recovery_action;
        v->nvmlReturn = known ? SUCCESS : NOT_SUPPORTED;
        if (known) {
            /* Only the member of that type is written, as the real one does. */
            memset(&v->value, 0xff, sizeof v->value);
            v->valueType = TYPE_UNSIGNED_INT;
            v->value.uiVal = g->recovery_action;
        }
    });
}
#endif

#define PROCESSES(name, type, fill)                                             \
    API int name(void *device, unsigned *count, type *infos) {                  \
        unsigned room = *count;                                                 \
        QUERY(device, g->has_processes, *count = g->process_count;              \
              if (room < g->process_count) { return leave(INSUFFICIENT_SIZE); } \
              for (unsigned i = 0; i < g->process_count; i++) { fill; });       \
    }

#if NVML_SIM_GENERATION >= 3
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, ProcessInfo, infos[i] = g->process[i])
#endif
#if NVML_SIM_GENERATION >= 2
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, ProcessInfo, infos[i] = g->process[i])
#endif
PROCESSES(nvmlDeviceGetComputeRunningProcesses, ProcessInfoV1, infos[i].pid = g->process[i].pid;
          infos[i].usedGpuMemory = g->process[i].usedGpuMemory)

API int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, int *level) {
    long index = (char *)other - handles, mine = (char *)one - handles;
    QUERY(one, index >= 0 && index < MAX_GPUS && (g->pcie[index] >= 0 || host.gpu[index].pcie[mine] >= 0),
          *level = g->pcie[index] >= 0 ? g->pcie[index] : host.gpu[index].pcie[mine]);
}

/* What is at the other end of a link: links are numbered peer by peer, those to switches last. -1: the link is down. */
static int link_peer(const Gpu *g, unsigned link) {
    unsigned first = 0;
    for (int peer = 0; peer < MAX_GPUS; peer++) {
        first += g->nvlink[peer];
        if (link < first) {
            return peer;
        }
    }
    return link < first + g->nvswitch ? MAX_GPUS : -1;
}

API int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active) {
    if (link >= LINKS) {
        return INVALID_ARGUMENT;
    }
    QUERY(device, 1, *active = link_peer(g, link) >= 0);
}

#if NVML_SIM_GENERATION >= 3
API int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) {
    QUERY(device, link_peer(g, link) >= 0, *type = link_peer(g, link) == MAX_GPUS ? REMOTE_SWITCH : REMOTE_GPU);
}
#endif

static const char *peer_bus(const Gpu *g, unsigned link) {
    int peer = link_peer(g, link);
    return peer == MAX_GPUS ? "00000000:FF:00.0" : host.gpu[peer].bus;
}

#if NVML_SIM_GENERATION >= 2
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, PciInfo *pci) {
    QUERY(device, link_peer(g, link) >= 0, fill_pci(pci, peer_bus(g, link)));
}
#endif
API int nvmlDeviceGetNvLinkRemotePciInfo(void *device, unsigned link, PciInfoV2 *pci) {
    QUERY(device, link_peer(g, link) >= 0, fill_pci_v2(pci, peer_bus(g, link)));
}

API int nvmlEventSetCreate(void **set) {
    enter();
    *set = &reported_xid; /* one set is all we need */
    for (unsigned i = 0; i < MAX_GPUS; i++) {
        reported_xid[i] = host.gpu[i].xid_number;
        registered[i] = 0;
    }
    return leave(initialized ? SUCCESS : UNINITIALIZED);
}

API int nvmlEventSetFree(void *set) { return set == &reported_xid ? SUCCESS : INVALID_ARGUMENT; }

API int nvmlDeviceGetSupportedEventTypes(void *device, u64 *types) { QUERY(device, 1, *types = EVENT_XID); }

API int nvmlDeviceRegisterEvents(void *device, u64 types, void *set) {
    if (set != &reported_xid || types != EVENT_XID) {
        return INVALID_ARGUMENT;
    }
    QUERY(device, 1, registered[g - host.gpu] = 1);
}

static int wait_event(EventData *data, unsigned timeout) {
    for (unsigned waited = 0;; waited += 20) {
        enter();
        if (!initialized) {
            return leave(UNINITIALIZED);
        }
        for (unsigned i = 0; i < host.gpu_count; i++) {
            if (registered[i] && host.gpu[i].xid_number > reported_xid[i]) {
                reported_xid[i] = host.gpu[i].xid_number;
                data->device = &handles[i], data->eventType = EVENT_XID, data->eventData = host.gpu[i].xid_code;
                return leave(SUCCESS);
            }
        }
        leave(SUCCESS);
        if (waited >= timeout) {
            return TIMEOUT;
        }
        usleep(20000);
    }
}

#if NVML_SIM_GENERATION >= 2
API int nvmlEventSetWait_v2(void *set, EventData *data, unsigned timeout) {
    (void)set;
    return wait_event(data, timeout);
}
#endif
API int nvmlEventSetWait(void *set, EventData *data, unsigned timeout) {
    (void)set;
    return wait_event(data, timeout);
}
