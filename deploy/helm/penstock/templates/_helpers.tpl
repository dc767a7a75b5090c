{{- define "penstock.name" -}}
{{- if contains "penstock" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-penstock" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Not part-of: penstock, which the pods of applications have. */ -}}
{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "penstock.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "penstock.applicationsNamespace" -}}
{{ .Values.applications.namespace | default (printf "%s-applications" .Release.Namespace) }}
{{- end }}

{{- define "penstock.nodeDirectories" -}}
{{- if or .Values.pageCache.disk.path .Values.pageCache.memory.path .Values.applications.scratch.path }}yes{{ end -}}
{{- end }}

{{- /* In JSON. A pod that may write to a directory could replace one below it by a link to any other. */ -}}
{{- define "penstock.nodePaths" -}}
{{- $paths := compact (list .Values.pageCache.disk.path .Values.pageCache.memory.path .Values.applications.scratch.path) -}}
{{- range $one := $paths }}
{{- range $other := $paths }}
{{- if hasPrefix (printf "%s/" $one) $other }}
{{- fail (printf "%s lies below %s: a pod could replace it by a link to another directory of the node. Choose directories side by side." $other $one) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $paths -}}
{{- end }}

{{- define "penstock.databaseSecret" -}}
{{- if .Values.database.secret -}}
{{ .Values.database.secret }}
{{- else if .Values.database.bundled -}}
{{ include "penstock.name" . }}-database
{{- else -}}
{{ fail "A database is needed: database.secret names a Secret whose keys `url` and `catalogUrl` are PostgreSQL addresses, or set database.bundled=true for a trial." }}
{{- end -}}
{{- end }}

{{- define "penstock.keySecret" -}}
{{ .Values.secretsKey.secret | default (printf "%s-secrets-key" (include "penstock.name" .)) }}
{{- end }}

{{- define "penstock.tlsSecret" -}}
{{ .Values.tls.secret | default (printf "%s-tls" (include "penstock.name" .)) }}
{{- end }}

{{- /* By which browsers reach Spark's pages; empty: by the service's own name and their port. */ -}}
{{- define "penstock.sparkUiUrl" -}}
{{- $ingress := .Values.ingress -}}
{{- $route := .Values.route -}}
{{- if and $ingress.enabled (eq $ingress.host $ingress.sparkUiHost) -}}
{{ fail "ingress.sparkUiHost must be another than ingress.host: on one host, Spark's pages could read the console's token." }}
{{- else if and .Values.openshift $route.sparkUiHost (eq $route.host $route.sparkUiHost) -}}
{{ fail "route.sparkUiHost must be another than route.host: on one host, Spark's pages could read the console's token." }}
{{- else if .Values.service.sparkUiUrl -}}
{{ .Values.service.sparkUiUrl }}
{{- else if $ingress.enabled -}}
{{ printf "%s://%s" ($ingress.tlsSecret | empty | ternary "http" "https") $ingress.sparkUiHost }}
{{- else if and .Values.openshift $route.sparkUiHost -}}
{{ printf "https://%s" $route.sparkUiHost }}
{{- end -}}
{{- end }}

{{- define "penstock.gatewaysUrl" -}}
{{- $g := .Values.gateways -}}
{{- $port := eq $g.mode "headless" | ternary $g.port (eq $g.scheme "https" | ternary 443 80) -}}
{{ printf "%s://%s-gateways.%s.svc:%v" $g.scheme (include "penstock.name" .) .Release.Namespace $port }}
{{- end }}

{{- define "penstock.endpoints" -}}
{{- if and .Values.gateways.addresses .Values.lake.endpoints -}}
{{ fail "Give the gateways either as lake.endpoints (each by its own address) or as gateways.addresses (behind one name)." }}
{{- else if .Values.gateways.addresses -}}
{{ list (include "penstock.gatewaysUrl" .) | toJson }}
{{- else if .Values.lake.endpoints -}}
{{ .Values.lake.endpoints | toJson }}
{{- else -}}
{{ fail "A lake is needed: lake.endpoints=[https://s3.example.com], or gateways.addresses." }}
{{- end -}}
{{- end }}

{{- define "penstock.confined" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end }}

{{- define "penstock.confinedPod" -}}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* What the service and what prepares it have in common. */ -}}
{{- define "penstock.container" -}}
image: {{ include "penstock.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "penstock.confined" . | nindent 2 }}
env:
  - {name: PENSTOCK_CLUSTER, value: /etc/penstock/cluster.yaml}
  - {name: AWS_SHARED_CREDENTIALS_FILE, value: /etc/penstock/lake/credentials}
  - {name: PENSTOCK_SECRETS_KEY_FILE, value: /etc/penstock/secrets/key}
  - name: PENSTOCK_DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ include "penstock.databaseSecret" . }}, key: url}}
  # Applications know this login, which cannot read the engine's records. Without it the service does not start, and says so.
  - name: PENSTOCK_CATALOG_DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ include "penstock.databaseSecret" . }}, key: catalogUrl, optional: true}}
volumeMounts:
  - {name: home, mountPath: /var/lib/penstock}
  - {name: tmp, mountPath: /tmp}
  - {name: configuration, mountPath: /etc/penstock/cluster.yaml, subPath: cluster.yaml, readOnly: true}
  - {name: configuration, mountPath: /etc/penstock/prepare.sh, subPath: prepare.sh, readOnly: true}
  - {name: tls, mountPath: /etc/penstock/tls, readOnly: true}
  - {name: lake, mountPath: /etc/penstock/lake, readOnly: true}
  - {name: key, mountPath: /etc/penstock/secrets, readOnly: true}
  {{- if .Values.lake.caConfigMap }}
  - {name: ca, mountPath: /etc/penstock/ca, readOnly: true}
  {{- end }}
{{- end }}
