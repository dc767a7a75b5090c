{{- define "penstock.clusterFile" -}}
{{- $a := .Values.applications -}}
kind: kubernetes
namespace: {{ include "penstock.applicationsNamespace" . }}
image: {{ include "penstock.image" . | quote }}
pull_policy: {{ .Values.image.pullPolicy }}
pull_secrets: {{ .Values.image.pullSecrets | toJson }}
service_account: {{ include "penstock.name" . }}-driver
executor_service_account: {{ include "penstock.name" . }}-executor
{{- if not (kindIs "invalid" $a.overhead) }}
overhead: {{ $a.overhead }}
{{- end }}
cpu_request: {{ $a.cpuRequest }}
start_timeout_seconds: {{ $a.startTimeoutSeconds }}
scratch:
  medium: {{ $a.scratch.medium }}
  size: {{ $a.scratch.size }}
  {{- with $a.scratch.path }}
  path: {{ . | quote }}
  {{- end }}
{{- $tiers := dict }}
{{- range $tier := list "disk" "memory" }}
{{- with index $.Values.pageCache $tier }}{{ if .path }}{{ $_ := set $tiers $tier (dict "path" .path "size" .size) }}{{ end }}{{ end }}
{{- end }}
{{- with $tiers }}
page_cache: {{ toJson . }}
{{- end }}
{{- with $a.capacity }}
capacity: {{ toJson . }}
{{- end }}
{{- with $a.largestNode }}
largest_node: {{ toJson . }}
{{- end }}
{{- with $a.labels }}
labels: {{ toJson . }}
{{- end }}
{{- with $a.annotations }}
annotations: {{ toJson . }}
{{- end }}
{{- with $a.nodeSelector }}
node_selector: {{ toJson . }}
{{- end }}
{{- with $a.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $a.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with $a.priorityClassName }}
priority_class: {{ . }}
{{- end }}
{{- with $a.environmentFrom }}
environment_from: {{ toJson . }}
{{- end }}
{{- with $a.driverTemplate }}
driver_template: {{ toJson . }}
{{- end }}
{{- with $a.executorTemplate }}
executor_template: {{ toJson . }}
{{- end }}
{{- end }}

{{- /* What a service finds when it starts: its state directory is new in each pod, what lasts is in database and lake.
       Every value below is bound to letters without a meaning to the shell by values.schema.json. */ -}}
{{- define "penstock.addLake" -}}
# Not tried: a service whose lake is away for a while starts all the same, and says so.
penstock lake add '{{ .Values.lake.name }}' --no-check --aws-profile default \
{{- range $endpoint := include "penstock.endpoints" . | fromJsonArray }}
  --endpoint '{{ $endpoint }}' \
{{- end }}
{{- if .Values.lake.caConfigMap }}
  --ca-file /etc/penstock/ca/ca.pem \
{{- end }}
{{- with .Values.lake.roleArn }}
  --role-arn '{{ . }}' \
{{- end }}
  --region '{{ .Values.lake.region }}' {{ .Values.lake.pathStyle | ternary "--path-style" "--virtual-host" }} --bucket '{{ required "lake.bucket is needed" .Values.lake.bucket }}'
{{- end }}

{{- define "penstock.prepare" -}}
set -eu
{{ include "penstock.addLake" . }}
{{- range .Values.instances }}
penstock instance set '{{ .name }}'
{{- with .weight }} --weight {{ . }}{{ end }}
{{- with .cores }} --cores {{ int . }}{{ end }}
{{- with .memory }} --memory {{ . }}{{ end }}
{{- with .running }} --running {{ int . }}{{ end }}
{{- if hasKey . "waiting" }} --waiting {{ int .waiting }}{{ end }}
{{- end }}
# Nobody could use a service without a token, so it would not start. Who may exec into the pod makes others:
# penstock token create NAME
if [ "$(penstock token list --json)" = "[]" ]; then
  mkdir -p "$PENSTOCK_HOME/service"
  penstock token create "first administrator" --scope administer --output "$PENSTOCK_HOME/service/admin.token"
fi
{{- end }}
